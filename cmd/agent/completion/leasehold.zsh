#compdef leasehold
# zsh completion for leasehold: source <(leasehold completion zsh), after compinit
_leasehold() {
    local line
    local -a candidates
    for line in "${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -n $line ]] || continue
        candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    if (( $#candidates )); then
        _describe leasehold candidates
    else
        _files
    fi
}
if [[ $funcstack[1] == _leasehold ]]; then
    _leasehold "$@"
else
    compdef _leasehold leasehold
fi
