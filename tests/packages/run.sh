#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# run.sh: installs the packages beside it on the minimal Debian of the disk "packages", uses the
# driver, also as Documentation/silicon.md says, removes them, and checks for leftovers; as TAP.
# Debian's own dpkg, kmod and udev do it, in a chroot whose writes go to an overlay: the overlay holds
# exactly the changes.
here=$(dirname "$0")
root=/packages/root
upper=/packages/memory/upper
release=$(uname -r)

debian() {
	chroot $root /usr/bin/env -i PATH=/usr/sbin:/usr/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive SYSTEMD_IGNORE_CHROOT=1 "$@"
}

mount_root() {
	mkdir -p /packages/disk /packages/memory $root
	modprobe -a virtio_blk erofs overlay || return
	for d in /sys/block/vd*; do
		[ "$(cat "$d/serial")" != packages ] || disk=/dev/${d##*/}
	done
	mount -t erofs -o ro "$disk" /packages/disk && mount -t tmpfs tmpfs /packages/memory || return
	mkdir $upper /packages/memory/work
	mount -t overlay -o lowerdir=/packages/disk,upperdir=$upper,workdir=/packages/memory/work overlay $root || return
	for d in proc sys dev tmp rkfd; do
		mkdir -p $root/$d
		mount --rbind /$d $root/$d || return
	done
	mount -t tmpfs tmpfs $root/run
}

# Changed files: files that are new, different or gone, and new folders. A log and copies of its
# former lists are dpkg's own.
left() {
	(cd $upper && find . -mindepth 1) | sed 's/^\.//' | while read -r f; do
		case $f in
		/rkfd | /var/log/* | /var/lib/dpkg/*-old | /var/lib/dpkg/lock* | /var/lib/dpkg/triggers/Lock | /var/cache/ldconfig/aux-cache) continue ;;
		esac
		if [ -d "$upper$f" ] && [ ! -L "$upper$f" ]; then
			[ -d "/packages/disk$f" ] || echo "$f"
		elif [ -L "$upper$f" ]; then
			[ "$(readlink "$upper$f")" = "$(readlink "/packages/disk$f")" ] || echo "$f"
		else
			cmp -s "$upper$f" "/packages/disk$f" || echo "$f"
		fi
	done
}

# The driver that udev would have loaded for a GPU.
automatic() {
	debian modprobe -b -n -v "$(cat "$first/modalias")" 2>/dev/null | sed -n 's,.*/\(amdgpu\|rkfd\)\.ko.*,\1,p' | sort -u | tr '\n' ' '
}

driver() { # DEVICE
	basename "$(readlink "$1/driver" || echo none)"
}

nodes() {
	debian stat -c '%a %G %n' /dev/kfd /dev/dri/renderD128 /dev/dri/renderD129 | tr '\n' ' '
}

as_user() { # GROUP COMMAND...
	group=$1
	shift
	debian setpriv --reuid=65534 --regid=65534 --groups="$group" "$@"
}

. /rkfd/clients/tap.sh
. "$here/page.sh"
for d in /sys/bus/pci/devices/*; do
	[ "$(cat "$d/vendor"):$(cat "$d/device")" != 0x1002:0x740f ] || gpus="$gpus $d"
done
# shellcheck disable=SC2086
set -- $gpus
[ $# -eq 2 ] || bail "two GPUs are wanted, there are $#"
first=$1 second=$2
mount_root || bail "no Debian to install into"
debian /usr/lib/systemd/systemd-udevd --daemon || bail "no udevd"
[ "$(automatic)" = "amdgpu " ]
result $? "a GPU is amdgpu's"

debian dpkg -i $(ls "$here"/*.deb) >/tmp/log 2>&1
rc=$?
sed 's/^/# /' /tmp/log
result $rc "dpkg installs the packages"
[ "$(debian modinfo -F vermagic rkfd | cut -d' ' -f1)" = "$release" ]
result $? "the module is in the kernel's index"
[ "$(automatic)" = "amdgpu " ]
result $? "a GPU still is amdgpu's"
debian ln -s /usr/share/rkfd/in-place-of-amdgpu.conf /etc/modprobe.d/rkfd.conf
[ "$(automatic)" = "rkfd " ]
result $? "a GPU is rkfd's once that was asked for"

# With amdgpu there, which is kept from the GPUs: it would want firmware that no disk here has.
echo none >"$first/driver_override"
echo none >"$second/driver_override"
debian modprobe amdgpu && ! debian modprobe rkfd 2>/dev/null && dmesg | grep -q 'rkfd: amdgpu is loaded: unload it first'
result $? "beside amdgpu rkfd says why it does not load"
debian modprobe -r amdgpu
echo >"$first/driver_override"

debian modprobe rkfd
result $? "modprobe rkfd"
[ "$(driver "$first") $(driver "$second")" = "rkfd none" ]
result $? "driver_override keeps it from a GPU"
echo >"$second/driver_override"
echo "${second##*/}" >/sys/bus/pci/drivers_probe
[ "$(driver "$second")" = rkfd ]
result $? "and lets it have that again"
# modprobe takes it for loaded.
debian modprobe amdgpu
! grep -q '^amdgpu ' /proc/modules && [ "$(driver "$first") $(driver "$second")" = "rkfd rkfd" ]
result $? "beside rkfd amdgpu does not load"

debian udevadm settle
echo "# $(nodes)"
[ "$(nodes)" = "660 render /dev/kfd 660 render /dev/dri/renderD128 660 render /dev/dri/renderD129 " ]
result $? "the device nodes are group render's"
# Debian's own rules say the same, so udev is asked which ones it follows.
debian udevadm test /sys/class/kfd/kfd >/tmp/log 2>&1
grep -q '60-rkfd\.rules:[0-9]' /tmp/log
rc=$?
[ $rc -eq 0 ] || grep rules /tmp/log | sed 's/^/# /'
debian udevadm test /sys/class/drm/renderD128 2>&1 | grep -q '60-rkfd\.rules:[0-9]' || rc=1
result $rc "by the package's rules"
as_user render /usr/libexec/rkfd/kselftest/memory >/tmp/log 2>&1
rc=$?
grep -E '^(not ok|# Totals)' /tmp/log | sed 's/^/# /'
grep -q '^ok ' /tmp/log && [ $rc -eq 0 ]
result $? "a kselftest, as a user of that group"
as_user render /usr/libexec/rkfd/clients/one_copy >/tmp/log 2>&1
rc=$?
sed 's/^/# /' /tmp/log
result $rc "a client of libhsakmt, as a user of that group"
debian rkfd-top --once >/tmp/log 2>&1 && [ "$(grep -c "^GPU " /tmp/log)" = 2 ]
rc=$?
[ $rc -eq 0 ] || sed 's/^/# /' /tmp/log
result $rc "rkfd-top shows both GPUs"
as_user nogroup /usr/libexec/rkfd/kselftest/version >/tmp/log 2>&1
[ $? -ne 0 ] && ! grep -q '^ok ' /tmp/log
result $? "nobody else may"

rc=0
for program in $(page_programs); do
	[ -x "$root/usr/libexec/rkfd/$program" ] || { echo "# there is no $program"; rc=1; }
done
result $rc "the programs that silicon.md names are installed"
debian rmmod rkfd
page_runs

debian dpkg --purge rkfd-tools "rkfd-modules-$release" rkfd-common >/tmp/log 2>&1
rc=$?
sed 's/^/# /' /tmp/log
result $rc "dpkg removes the packages"
[ ! -e /sys/module/rkfd ] && [ ! -e /dev/kfd ]
result $? "the module is unloaded"
left >/tmp/left
sed 's/^/# left: /' /tmp/left
[ ! -s /tmp/left ]
result $? "nothing is left"
finish
