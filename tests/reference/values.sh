#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# values.sh PART...: what the machine says of its GPUs, a line "key value" each. The parts:
#   topology  /sys/class/kfd/kfd/topology: cpu0/..., gpu0/..., numbered by kind
#   pci       the device's files in sysfs and its configuration space: gpu0/pci/...
#   rocminfo, rocm-smi  of Debian's clients: gpu0/rocminfo/..., gpu0/rocm-smi/...
#   log       lines of the kernel's log: log/...
# Lists whose members are alike, such as caches, are summed up.
nodes=/sys/class/kfd/kfd/topology/nodes

# name NODE: sets who to cpu0, gpu0, ...
name() {
	# shellcheck disable=SC2086
	set -- $1 $names
	shift "$1"
	who=$2
}

# properties PREFIX FILE
properties() {
	sed "s|^|$1/|" "$2"
}

# links NODE KIND PREFIX: by the node at the other end
links() {
	set -- "$3" "$nodes/$1/$2"/*/properties
	[ -e "$2" ] || return 0
	prefix=$1
	shift
	awk -v prefix="$prefix" -v names="$names" '
		BEGIN { split(names, name, " ") }
		$1 == "node_to" { to = name[$2 + 1] }
		$1 ~ /^node_/ { next }
		# The other end is told before the weight.
		$1 ~ /^(type|version_)/ { held = held $0 "\n"; next }
		held != "" { n = split(held, line, "\n"); for (i = 1; i < n; i++) print prefix "/" to "/" line[i]; held = "" }
		{ print prefix "/" to "/" $0 }' "$@"
}

# caches NODE: caches that follow each other with the same level, type and size, as one
caches() {
	base=$(sed -n 's/^simd_id_base //p' "$nodes/$1/properties")
	awk -v prefix="$who/caches" -v base="$base" '
		{ n = FILENAME; sub(/\/properties$/, "", n); sub(/.*\//, "", n); v[n + 0, $1] = $2; if (n + 0 >= count) count = n + 1 }
		function add(run, key, value) {
			if (index("," all[run, key] ",", "," value ",") == 0)
				all[run, key] = all[run, key] (all[run, key] == "" ? "" : ",") value
		}
		END {
			for (i = 0; i < count; i++) {
				kind = v[i, "level"] " " v[i, "type"] " " v[i, "size"]
				if (kind != last || i == 0) { run++; low[run] = 1e12 }
				# Instructions and data of a shader array are two kinds of the same size.
				last = kind
				number[run]++
				split("level type size cache_line_size cache_lines_per_tag association latency", keys, " ")
				for (k in keys) add(run, keys[k], v[i, keys[k]])
				at = v[i, "processor_id_low"] - base
				if (at < low[run]) low[run] = at
				if (at > high[run]) high[run] = at
				places = split(v[i, "sibling_map"], bit, ",")
				add(run, "places", places)
				add(run, "first_place", bit[1])
				for (b = 1; b <= places; b++)
					if (bit[b]) { ones[run]++; if ((b - 1) % 32 > far[run]) far[run] = (b - 1) % 32 }
			}
			for (r = 1; r <= run; r++) {
				print prefix "/" r "/count", number[r]
				for (k in keys) print prefix "/" r "/" keys[k], all[r, keys[k]]
				print prefix "/" r "/places", all[r, "places"]
				print prefix "/" r "/first_place", all[r, "first_place"]
				print prefix "/" r "/served", ones[r]
				print prefix "/" r "/last_place_of_array", far[r] + 0
				print prefix "/" r "/processors", (low[r] + 0) ".." (high[r] + 0)
			}
		}' "$nodes/$1"/caches/*/properties
}

topology() {
	properties system /sys/class/kfd/kfd/topology/system_properties
	for n in $(seq 0 $((count - 1))); do
		name "$n"
		properties "$who" "$nodes/$n/properties"
		echo "$who/name $(cat "$nodes/$n/name")"
		for bank in "$nodes/$n"/mem_banks/*; do
			properties "$who/bank${bank##*/}" "$bank/properties"
		done
		links "$n" io_links "$who/io"
		links "$n" p2p_links "$who/p2p"
		case $who in
		gpu*) caches "$n" ;;
		esac
	done
}

# device NODE: the PCI device of a GPU
device() {
	at=$(sed -n 's/^location_id //p' "$nodes/$1/properties")
	domain=$(sed -n 's/^domain //p' "$nodes/$1/properties")
	printf '/sys/bus/pci/devices/%04x:%02x:%02x.%x' "$domain" $((at >> 8)) $((at >> 3 & 31)) $((at & 7))
}

pci() {
	for n in $(seq 0 $((count - 1))); do
		name "$n"
		case $who in
		gpu*) ;;
		*) continue ;;
		esac
		where=$(device "$n") prefix=$who/pci
		for file in vendor device class revision subsystem_vendor subsystem_device max_link_speed \
			max_link_width current_link_speed current_link_width; do
			echo "$prefix/$file $(cat "$where/$file" 2>/dev/null || echo absent)"
		done
		i=0
		while read -r start end flags; do
			case $i in
			6) bar=rom ;;
			*) bar=bar$i ;;
			esac
			i=$((i + 1))
			[ $i -le 7 ] || break
			[ $((flags)) != 0 ] || continue
			kind=memory
			[ $((flags & 0x100)) = 0 ] || kind=io
			[ $((flags & 0x2000)) = 0 ] || kind="$kind,prefetchable"
			[ $((flags & 0x100000)) = 0 ] || kind="$kind,64"
			echo "$prefix/$bar/size $((end - start + 1))"
			echo "$prefix/$bar/kind $kind"
		done <"$where/resource"
		od -An -v -tu1 -w1 "$where/config" | awk -v prefix="$prefix" '
			{ byte[NR - 1] = $1 + 0 }
			function word(at) { return byte[at] + 256 * byte[at + 1] }
			function power(n, out) { for (out = 1; n > 0; n--) out *= 2; return out }
			function bits(value, low, count) { return int(value / power(low)) % power(count) }
			function say(key, value) { print prefix "/" key, value }
			END {
				names[1] = "pm"; names[5] = "msi"; names[16] = "pcie"; names[17] = "msix"; names[9] = "vendor"
				for (at = byte[52]; at && seen++ < 48; at = byte[at + 1]) {
					id = byte[at]
					say("capability/" (id in names ? names[id] : id), "yes")
					if (id == 1) {
						split("D0 D1 D2 D3hot D3cold", state, " ")
						pme = ""
						for (i = 1; i <= 5; i++) if (bits(word(at + 2), 10 + i, 1)) pme = pme (pme == "" ? "" : ",") state[i]
						say("pm/pme_from", pme == "" ? "none" : pme)
						say("pm/version", bits(word(at + 2), 0, 3))
					}
					if (id == 5) { say("msi/vectors", power(bits(word(at + 2), 1, 3))); say("msi/64", bits(word(at + 2), 7, 1)) }
					if (id == 17) say("msix/vectors", bits(word(at + 2), 0, 11) + 1)
					if (id == 16) {
						say("pcie/version", bits(word(at + 2), 0, 4))
						say("pcie/type", bits(word(at + 2), 4, 4))
						say("pcie/payload", 128 * power(bits(word(at + 4), 0, 3)))
						say("pcie/flr", bits(word(at + 6), 12, 1))
						say("pcie/link_speed", bits(word(at + 12), 0, 4))
						say("pcie/link_width", bits(word(at + 12), 4, 6))
						say("pcie/atomics_32_64", bits(word(at + 36), 7, 2))
					}
				}
				extended[1] = "aer"; extended[3] = "serial"; extended[11] = "vendor"; extended[14] = "ari"; extended[15] = "ats"
				extended[16] = "sriov"; extended[19] = "pri"; extended[21] = "rebar"; extended[25] = "secondary"; extended[27] = "pasid"
				for (at = 256; at && NR > 256 && word(at) && hops++ < 48; at = int(word(at + 2) / 16)) {
					id = word(at)
					say("extended/" (id in extended ? extended[id] : id), "yes")
					if (id == 16) { say("sriov/vfs", word(at + 14)); say("sriov/device", word(at + 26)) }
				}
			}'
	done
}

rocminfo() {
	suite "${RKFD_ROCMINFO:-forky}" rocminfo 2>/dev/null | awk '
		/^Agent [0-9]/ { part = ""; gpu = 0; held = ""; next }
		{ line = $0; sub(/^ +/, "", line); sub(/ +$/, "", line) }
		line ~ /^(Pool|ISA) [0-9]+$/ { part = tolower(line) "/"; sub(/ /, "", part); next }
		line ~ /^(Cache|Pool|ISA) Info:/ { next }
		line ~ /^[xyz] +[0-9]/ { split(line, axis, /[ (]+/); out(of "/" axis[1], axis[2]); next }
		line ~ /:/ {
			key = line; sub(/:.*/, "", key); value = line; sub(/^[^:]*:[: ]*/, "", value)
			sub(/\(0x[0-9a-f]+\)/, "", value); sub(/ +$/, "", value)
			of = key
			if (value != "") out(key, value)
			# What came before the kind of the agent was known.
			if (key == "Device Type" && value == "GPU") { gpu = 1; printf "%s", held; number++ }
		}
		function out(key, value) {
			gsub(/ /, "_", key); gsub(/ /, "_", value)
			text = "gpu" (number - gpu) "/rocminfo/" part key " " value "\n"
			if (gpu) printf "%s", text; else held = held text
		}'
}

rocm_smi() {
	suite trixie-smi 'python3 /usr/libexec/rocm_smi/rocm_smi.py --showproductname --showid --showmeminfo vram --showmaxpower --showperflevel --showbus --showclocks --showmemvendor --showuniqueid' 2>/dev/null |
		tr '\t' ' ' | sed -nE 's/^GPU\[([0-9]+)\] *: *([^:]*[^: ]) *: *(.*[^ ]) *$/gpu\1\trocm-smi\t\2\t\3/p' |
		awk -F '\t' '{ gsub(/ /, "_", $3); gsub(/ /, "_", $4); print $1 "/rocm-smi/" $3, $4 }'
}

# What rkfd and amdgpu both tell, each in its own words.
log() {
	dmesg | sed -nE '
		s|.* rkfd [0-9a-f:.]*: (.*), ([0-9]+) MiB of VRAM, gpu_id.*|log/vram_mib \2|p
		s|.*Detected VRAM RAM=([0-9]+)M, .*|log/vram_mib \1|p
		s|.* rkfd [0-9a-f:.]*: SMU: features .*, ([0-9]+) W; MHz: graphics ([0-9]+)-([0-9]+), memory ([0-9]+)-([0-9]+), SOC ([0-9]+)-([0-9]+), fabric ([0-9]+)-([0-9]+)|log/power_watts \1\nlog/graphics_mhz \3\nlog/memory_mhz \5\nlog/soc_mhz \7|p' | sort -u
}

cpu=0 gpu=0 count=0 names=
while [ -e "$nodes/$count" ]; do
	read -r id <"$nodes/$count/gpu_id"
	if [ "$id" = 0 ]; then
		names="$names cpu$cpu" cpu=$((cpu + 1))
	else
		names="$names gpu$gpu" gpu=$((gpu + 1))
	fi
	count=$((count + 1))
done
for part; do
	case $part in
	topology | pci | rocminfo | log) "$part" ;;
	rocm-smi) rocm_smi ;;
	*) echo "values.sh: no part $part" >&2 && exit 1 ;;
	esac
done
