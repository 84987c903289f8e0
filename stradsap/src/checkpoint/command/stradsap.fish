# Completions of stradsap for fish: stradsap completions fish > ~/.config/fish/completions/stradsap.fish
complete -c stradsap -f
complete -c stradsap -n __fish_use_subcommand -a checkpoints -d 'look at the checkpoints that programs keep'
complete -c stradsap -n __fish_use_subcommand -a completions -d 'print completions for a shell'
complete -c stradsap -n __fish_use_subcommand -a man -d 'print the manual page'
complete -c stradsap -n __fish_use_subcommand -s h -l help -d 'print how it is used'
complete -c stradsap -n __fish_use_subcommand -s V -l version -d 'print the version'
complete -c stradsap -n '__fish_seen_subcommand_from completions' -a 'bash zsh fish'
complete -c stradsap -n '__fish_seen_subcommand_from checkpoints; and not __fish_seen_subcommand_from list verify show' -a 'list verify show'
complete -c stradsap -n '__fish_seen_subcommand_from list' -a '(__fish_complete_directories)'
complete -c stradsap -n '__fish_seen_subcommand_from verify show' -F
