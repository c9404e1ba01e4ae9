# The command completes itself: it reads COMP_LINE.
complete -c pcs-capacity -f -a '(env COMP_LINE=(commandline -cp) pcs-capacity 2>/dev/null)'
