#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# without_pasid.sh PROGRAM...: runs it while the device model's interrupt entries have no PASID.
tell() {
	echo "omit-pasid $1" >&5
	read -r answer <&5
	[ "${answer%?}" = ok ] || [ "$answer" = ok ] || { echo "Bail out! the model says: $answer"; exit 1; }
}
exec 5<>/dev/rkfd-model
tell on
"$@"
status=$?
tell off
exit $status
