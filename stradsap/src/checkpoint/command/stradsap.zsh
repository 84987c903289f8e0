#compdef stradsap
# Completions of stradsap for zsh: stradsap completions zsh > a folder of $fpath, as _stradsap
_stradsap() {
    case "$CURRENT:$words[2]:$words[3]" in
        2:*) _values command checkpoints completions man --help --version ;;
        3:checkpoints:*) _values action list verify show ;;
        3:completions:*) _values shell bash zsh fish ;;
        4:checkpoints:list) _files -/ ;;
        4:checkpoints:*) _files ;;
    esac
}
_stradsap "$@"
