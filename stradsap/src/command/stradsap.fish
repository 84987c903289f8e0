# Completions of stradsap for fish: stradsap completions fish > ~/.config/fish/completions/stradsap.fish
complete -c stradsap -f
complete -c stradsap -n __fish_use_subcommand -a checkpoints -d 'look at the checkpoints that programs keep'
complete -c stradsap -n __fish_use_subcommand -a simulate -d 'how a loop would run on other machines'
complete -c stradsap -n __fish_use_subcommand -a completions -d 'print completions for a shell'
complete -c stradsap -n __fish_use_subcommand -a man -d 'print the manual page'
complete -c stradsap -n __fish_use_subcommand -s h -l help -d 'print how it is used'
complete -c stradsap -n __fish_use_subcommand -s V -l version -d 'print the version'
complete -c stradsap -n '__fish_seen_subcommand_from completions' -a 'bash zsh fish'
complete -c stradsap -n '__fish_seen_subcommand_from checkpoints; and not __fish_seen_subcommand_from list verify show' -a 'list verify show'
complete -c stradsap -n '__fish_seen_subcommand_from list' -a '(__fish_complete_directories)'
complete -c stradsap -n '__fish_seen_subcommand_from verify show' -F
complete -c stradsap -n '__fish_seen_subcommand_from simulate' -F
complete -c stradsap -n '__fish_seen_subcommand_from simulate' -x -l workers -d 'worker processes, as 1,4,16'
complete -c stradsap -n '__fish_seen_subcommand_from simulate' -x -l threads -d 'threads in each'
complete -c stradsap -n '__fish_seen_subcommand_from simulate' -x -l cores -d 'cores of a machine'
complete -c stradsap -n '__fish_seen_subcommand_from simulate' -x -l machines -d 'as many machines'
complete -c stradsap -n '__fish_seen_subcommand_from simulate' -x -l link -d 'rate of a machine, as 10Gbit'
complete -c stradsap -n '__fish_seen_subcommand_from simulate' -x -l latency -d 'of the link, as 50us'
complete -c stradsap -n '__fish_seen_subcommand_from simulate' -x -l slow -d 'speed of a worker, as 3=0.5'
complete -c stradsap -n '__fish_seen_subcommand_from simulate' -x -l lose -d 'a worker that is lost, as 7@0.4'
complete -c stradsap -n '__fish_seen_subcommand_from simulate' -x -l access -d 'nanoseconds for each access'
complete -c stradsap -n '__fish_seen_subcommand_from simulate' -r -F -l json -d 'where the table is written'
complete -c stradsap -n '__fish_seen_subcommand_from simulate' -r -F -l svg -d 'where the speed-ups are drawn'
