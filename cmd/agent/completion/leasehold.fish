# fish completion for leasehold: leasehold completion fish > ~/.config/fish/completions/leasehold.fish
function __leasehold_complete
    set -l typed (commandline -opc)
    set -l current (commandline -ct)
    set -l candidates ($typed[1] complete -- $typed[2..-1] "$current" 2>/dev/null)
    if test (count $candidates) -gt 0
        printf '%s\n' $candidates
    else
        __fish_complete_path "$current"
    end
end
complete -c leasehold -f -a '(__leasehold_complete)'
