#compdef pcs-capacity
# The command completes itself: it reads COMP_LINE.
_pcs-capacity() {
  local -a found
  found=(${(f)"$(COMP_LINE="${(j: :)words[1,CURRENT]}" pcs-capacity 2>/dev/null)"})
  compadd -a found
}
# A file in fpath is called as the function; `completion zsh` is evaluated.
if [[ ${funcstack[1]} == _pcs-capacity ]]; then _pcs-capacity "$@"; else compdef _pcs-capacity pcs-capacity; fi
