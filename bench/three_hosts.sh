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

python3 "$(dirname "$0")/hosts.py" "$left" "$middle" "$right"
for name in "$left" "$middle" "$right"; do
    ip -n "$name" link set lo up
done
