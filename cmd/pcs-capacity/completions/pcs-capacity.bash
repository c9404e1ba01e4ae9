# The command completes itself: it reads COMP_LINE.
complete -C pcs-capacity pcs-capacity
