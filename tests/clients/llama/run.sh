#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# run.sh MODEL [OPERATION[:PARAMETERS]...]: makes llama.cpp continue a text, word by word the
# likeliest, by its HIP backend and by that of the processor, whose results must agree; then
# compares the results of OPERATIONs in both with its own test: of all that there are, or of those
# whose parameters match that regular expression. Prints TAP.
model=$1
shift
backend_ops=$(ls /usr/libexec/*/*/test-backend-ops | head -n 1)

# generate FILE OPTION...
generate() {
	out=$1
	shift
	llama-completion -m "$model" -p 'Once upon a time' -n 24 --temp 0 --seed 1 --ignore-eos -no-cnv --no-warmup -t 2 -lv 5 "$@" \
		>"$out" 2>"$out.log" </dev/null || { tail -n 20 "$out.log" | sed 's/^/# /'; return 1; }
}

. /rkfd/clients/tap.sh
generate /tmp/cpu --device none
result $? "24 words by the processor"
generate /tmp/hip --device ROCm0 -ngl 99
result $? "24 words by HIP"
[ "$(grep -aoE 'layer +[0-9]+ assigned to device ROCm0' /tmp/hip.log | sort -u | wc -l)" = 3 ]
result $? "all layers are on the GPU"
[ -s /tmp/cpu ] && cmp /tmp/cpu /tmp/hip
result $? "both say the same"
od -An -tx1 /tmp/cpu | sed 's/^/# /'
for o; do
	name=${o%%:*}
	parameters=${o#"$name"}
	"$backend_ops" test -b ROCm0 -o "$name" ${parameters:+-p "${parameters#:}"} >/tmp/ops 2>&1
	rc=$?
	passed=$(grep -oE '[0-9]+/[0-9]+ tests passed' /tmp/ops | tail -n 1)
	# Zero passed of zero is no result.
	[ "${passed%% *}" != 0/0 ] || rc=1
	result $rc "$o: $passed"
	[ $rc = 0 ] || tail -n 5 /tmp/ops | sed 's/^/# /'
done
finish
