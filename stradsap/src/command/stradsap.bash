# Completions of stradsap for bash: source <(stradsap completions bash)
_stradsap() {
    local word=${COMP_WORDS[COMP_CWORD]} words=
    case "${COMP_CWORD}:${COMP_WORDS[1]}:${COMP_WORDS[2]}" in
        1:*) words="checkpoints simulate completions man --help --version" ;;
        2:checkpoints:*) words="list verify show" ;;
        2:completions:*) words="bash zsh fish" ;;
        *:simulate:*)
            case "${COMP_WORDS[COMP_CWORD-1]}" in
                --crowded | --json | --svg | simulate) mapfile -t COMPREPLY < <(compgen -f -- "$word") && return ;;
                *) words="--workers --threads --cores --shared-cores --machines --link --latency --slow --lose --access --crowded --json --svg" ;;
            esac ;;
        3:checkpoints:list) mapfile -t COMPREPLY < <(compgen -d -- "$word") && return ;;
        3:checkpoints:*) mapfile -t COMPREPLY < <(compgen -f -- "$word") && return ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o filenames -F _stradsap stradsap
