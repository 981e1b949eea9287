# For scripts that need two hosts and a router between them: three network namespaces, whose names are $left, $middle and $right, and
# a folder, $logs. They vanish with the script and what runs in them. Sourced, as root.

left=left-$$
middle=middle-$$
right=right-$$
logs=$(mktemp -d)

cleanup() {
    for name in "$left" "$middle" "$right"; do
        ip netns pids "$name" 2>/dev/null | xargs -r kill 2>/dev/null || true
        ip netns delete "$name" 2>/dev/null || true
    done
    rm -rf "$logs"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# The kernel's TCP is CUBIC, as Linux ships it, whatever this machine's own is. Namespaces have only what the machine allows to programs
# without privileges.
allowed=$(sysctl -n net.ipv4.tcp_allowed_congestion_control)
case " $allowed " in
*" cubic "*) ;;
*) sysctl -qw net.ipv4.tcp_allowed_congestion_control="$allowed cubic" ;;
esac
for name in "$left" "$middle" "$right"; do
    ip netns add "$name"
    ip netns exec "$name" sysctl -qw net.ipv4.tcp_congestion_control=cubic
    ip -n "$name" link set lo up
done
