# SPDX-License-Identifier: GPL-2.0
# Access to Debian's archive with this machine's settings. Scripts that make roots from the archive
# source this file after lib.sh.
# shellcheck shell=bash

# The mirror of this machine's own release, which has the sysroot's release too. apt does the
# parsing, so one-line and deb822 sources are alike. It prints the files that an update would fetch,
# whether or not there has been one.
mirror() {
	local codename
	[ -z "${RKFD_MIRROR:-}" ] || { echo "$RKFD_MIRROR"; return; }
	codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-none}")
	apt-get update --print-uris 2>/dev/null | grep -v "^'cdrom:" |
		sed -nE "s,^'([^']*)/dists/($codename|stable|testing|unstable|sid)/InRelease'.*,\1,p" | head -n 1
}

# bootstrap_options WORK [NAME]: sets BOOTSTRAP, options of mmdebstrap. This machine's settings for its
# archive (proxies, validity checks, retries) apply to every root. WORK is a folder that exists as
# long as mmdebstrap runs. With PINNED=y the packages of the root NAME have the versions of
# scripts/pinned, if that has the root; else those that the archive has.
bootstrap_options() {
	apt-config dump | grep -E '^Acquire::(Check-|[Hh]ttps?::|Force|Retries|Allow|By-Hash|Queue)' >"$1/apt.conf" || true
	BOOTSTRAP=(--mode=root --keyring=/usr/share/keyrings/debian-archive-keyring.gpg
		--aptopt="$1/apt.conf" --aptopt='APT::Install-Recommends "false"')
	if [ -n "$(ls /etc/apt/auth.conf /etc/apt/auth.conf.d/* 2>/dev/null)" ]; then
		BOOTSTRAP+=(--setup-hook='cp -r /etc/apt/auth.conf* "$1/etc/apt/"')
	fi
	if [ -n "${PINNED:-}" ]; then
		! grep -q "^${2:-#} " "$TOP/scripts/pinned" || BOOTSTRAP+=(--setup-hook="'$TOP/scripts/pinned-packages' $2 \"\$1\"")
	fi
	# Mounting is not possible in every container; no package of the lists needs it.
	unshare -m true 2>/dev/null || BOOTSTRAP+=(--skip=chroot/mount,check/canmount)
}

# make_root_of NAME SUITE ROOT ARGUMENT...: has mmdebstrap make ROOT, which scripts/pinned calls NAME,
# of packages of SUITE, with these options and sources. With LIST_VERSIONS=y it installs nothing, and
# prints a line "NAME PACKAGE VERSION" for each package that it would install now.
make_root_of() {
	local name=$1 suite=$2 root=$3 work=$CACHE/$1.work
	shift 3
	mkdir -p "$work"
	if [ -n "${LIST_VERSIONS:-}" ]; then
		bootstrap_options "$work"
		mmdebstrap "${BOOTSTRAP[@]}" --simulate --verbose "$suite" /dev/null "$@" 2>&1 |
			sed -n "s/^Inst \(\S*\) (\(\S*\) .*/$name \1 \2/p"
	else
		bootstrap_options "$work" "$name"
		mmdebstrap "${BOOTSTRAP[@]}" "$suite" "$root" "$@"
	fi
	rm -rf "$work"
}

# nodes ROOT: makes the device nodes that a build and QEMU need. mmdebstrap leaves most of them;
# /dev is never bind-mounted.
nodes() {
	local root=$1 n
	set -- null 1 3 zero 1 5 full 1 7 random 1 8 urandom 1 9 tty 5 0
	while [ $# -gt 0 ]; do
		n=$root/dev/$1
		[ -c "$n" ] || { rm -f "$n"; mknod -m 666 "$n" c "$2" "$3" ||
			die "cannot make device nodes below $CACHE: give the container CAP_MKNOD"; }
		shift 3
	done
	[ -e "$root/dev/fd" ] || ln -s /proc/self/fd "$root/dev/fd"
	# For containers where /proc cannot be mounted: objtool, rustfmt and clippy give up when
	# they cannot read the address of their main thread's stack. One line that covers any such
	# address is enough for them.
	mkdir -p "$root/proc/self"
	echo '7f0000000000-7ffffffff000 rw-p 00000000 00:00 0 [stack]' >"$root/proc/self/maps"
	mkdir -p "$root/dev/shm" "$root"/{src,out}
}

hint() {
	local what
	what=$(grep -m 1 '^rkfd: ' "$1" || true)
	if [ -n "$what" ]; then
		printf '%s\n' "$what" >&2
	elif grep -qiE 'could not resolve|temporary failure|failed to fetch|unable to connect|connection (refused|timed out)' "$1"; then
		note "the Debian archive cannot be reached: check the network and this machine's apt (apt-get update), or set RKFD_MIRROR=URL"
	elif grep -q "Version '.*' for 'linux-image-.*' was not found" "$1"; then
		note "the archive no longer has the kernel of this sysroot: name one that has (RKFD_MIRROR=URL), or have a newer kernel (make clean ALL=1)"
	elif grep -q 'NO_PUBKEY\|not signed' "$1"; then
		note "the archive's signature cannot be checked: upgrade the package debian-archive-keyring"
	elif grep -qi 'no space left' "$1"; then
		note "the file system of $CACHE is full: about 6 GB are needed, 12 GB with the debug kernel"
	fi
}
