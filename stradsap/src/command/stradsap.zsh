#compdef stradsap
# Completions of stradsap for zsh: stradsap completions zsh > a folder of $fpath, as _stradsap
_stradsap() {
    case "$CURRENT:$words[2]:$words[3]" in
        2:*) _values command checkpoints simulate completions man --help --version ;;
        *:simulate:*)
            _arguments '--workers[worker processes]:N,N' '--threads[threads in each]:T' '--cores[cores of a machine]:C' '--shared-cores[cores that all machines share]:C' \
                '--machines[as many machines]:M' '--link[rate of a machine]:RATE' '--latency[of the link]:TIME' \
                '*--slow[speed of a worker]:W=S' '--lose[a worker that is lost]:W@S' '--access[nanoseconds each]:NS' \
                '--crowded[the plan, written while all cores ran it]:FILE:_files' \
                '--json[where the table is written]:FILE:_files' '--svg[where the speed-ups are drawn]:FILE:_files' \
                '*:PLAN:_files' ;;
        3:checkpoints:*) _values action list verify show ;;
        3:completions:*) _values shell bash zsh fish ;;
        4:checkpoints:list) _files -/ ;;
        4:checkpoints:*) _files ;;
    esac
}
_stradsap "$@"
