#!/usr/bin/env bash
# Starts a systemd of its own, as process 1 of new namespaces: boot.sh FOLDER. It has an /etc, /run,
# /var/lib and /var/spool of its own, so nothing of the machine is touched. FOLDER has `units` and
# `bin`.
set -eu
folder=$1
name=stentor-test-$$

# A control group of its own, in each hierarchy that systemd uses.
for root in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
    if [ -e "$root/cgroup.procs" ]; then
        mkdir "$root/$name"
        echo $$ > "$root/$name/cgroup.procs"
    fi
done

export folder
exec unshare --mount --pid --fork --uts --ipc --cgroup --mount-proc --kill-child bash -eu -c '
    umount -R /sys/fs/cgroup
    if grep -q name=systemd /proc/self/cgroup; then
        mount -t tmpfs tmpfs /sys/fs/cgroup
        mkdir /sys/fs/cgroup/systemd /sys/fs/cgroup/unified
        mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
        mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
    else
        mount -t cgroup2 cgroup2 /sys/fs/cgroup
    fi
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir /run/lock /run/etc /run/bin
    cp -a /etc/. /run/etc
    cp "$folder"/bin/* /run/bin
    mount --bind /run/etc /etc
    mount -t tmpfs -o mode=755 tmpfs /var/lib
    mount -t tmpfs -o mode=755 tmpfs /var/spool
    exec env -i container=docker "PATH=/run/bin:$PATH" "SYSTEMD_UNIT_PATH=$folder/units" \
        /lib/systemd/systemd --system --unit=sysinit.target --log-target=null --show-status=no
'
