# bash takes words apart at `=`, and puts in what follows it: mcpd is asked about whole words.
_mcpd() {
    local line="${COMP_LINE:0:COMP_POINT}" start=$COMP_CWORD joined="$2" i glued=
    local whole="${line##*[[:space:]]}"
    local -a words=()
    if [[ -z "$2" && "${COMP_WORDS[COMP_CWORD]}" == "=" ]]; then
        joined="="
    fi
    while [[ "$joined" != "$whole" && $start -gt 0 ]]; do
        start=$((start - 1))
        joined="${COMP_WORDS[start]}$joined"
    done
    if [[ $start -eq 0 ]]; then
        _clap_complete_mcpd "$@"
        return
    fi
    for ((i = 0; i < start; i++)); do
        if [[ -n "$glued" || $i -gt 0 && "${COMP_WORDS[i]}" == "=" ]]; then
            words[${#words[@]} - 1]+="${COMP_WORDS[i]}"
        else
            words+=("${COMP_WORDS[i]}")
        fi
        [[ "${COMP_WORDS[i]}" == "=" ]] && glued=1 || glued=
    done
    local -a COMP_WORDS=("${words[@]}" "$whole")
    local COMP_CWORD=${#words[@]}
    _clap_complete_mcpd "$1" "$whole" "${words[${#words[@]} - 1]}"
    COMPREPLY=("${COMPREPLY[@]#"${whole%"$2"}"}")
}
if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -o nospace -o bashdefault -o nosort -F _mcpd mcpd
else
    complete -o nospace -o bashdefault -F _mcpd mcpd
fi
