# shellcheck shell=sh
# Runs a user manager of systemd's in namespaces and a cgroup of its own, as root, without an init system. Prints the
# process id of a process in those namespaces, as seen from outside. Ends it all when standard input ends.
#
# usage: unshare --mount --propagation private sh -c "$(cat user_manager.sh)" sh SCRATCH-DIRECTORY SYSTEMD
set -eu
scratch=$1 systemd=$2

# A mount of its own, since the one that is there may be read-only.
mkdir "$scratch/cgroup"
mount -t cgroup2 none "$scratch/cgroup"
parent=$scratch/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
group=$parent/mcpd-test-$$
mkdir -p "$group/shell"

# Units shall have these controllers. Not every machine has them to give.
hand_down='
    for controller in cpu memory pids; do
        echo "+$controller" >"$1/cgroup.subtree_control" || true
    done 2>/dev/null
'
sh -c "$hand_down" sh "$parent"

inside='
    read -r pid rest </proc/self/stat
    mount -t proc proc /proc
    # What tells systemd that it is there.
    mount -t tmpfs tmpfs /run
    mkdir -p /run/systemd/system
    # The hierarchy cannot be mounted over itself.
    mount -t tmpfs tmpfs /sys/fs/cgroup
    mount -t cgroup2 none /sys/fs/cgroup
    mkdir /sys/fs/cgroup/manager
    # What a helper of systemd mounts in a namespace of its own, units are to see, as they do below an init system.
    mount --make-rshared /
    (
        echo 0 >/sys/fs/cgroup/manager/cgroup.procs
        exec "$1" --user </dev/null >&2
    ) &
    for _ in $(seq 1000); do
        [ ! -S "$XDG_RUNTIME_DIR/systemd/private" ] || break
        sleep 0.01
    done
    if [ ! -S "$XDG_RUNTIME_DIR/systemd/private" ]; then
        echo "systemd does not answer" >&2
        exit 1
    fi
    echo "$pid"
    cat >/dev/null
'
# What has a process hands no controllers down, so none stays in the group once its namespace has been made.
enter='
    echo 0 >"$1/shell/cgroup.procs"
    sh -c "$4" sh "$1"
    exec unshare --mount --pid --fork --kill-child sh -euc "$2" sh "$3"
'
ended=0
(
    echo 0 >"$group/cgroup.procs"
    exec unshare --cgroup sh -euc "$enter" sh "$group" "$inside" "$systemd" "$hand_down"
) || ended=$?
find "$group" -depth -type d -exec rmdir {} \;
exit "$ended"
