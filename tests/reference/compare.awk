# SPDX-License-Identifier: GPL-2.0
# Compares the lines "key value" of values.sh with the rows of a table: README.md has their form.
# awk -f compare.awk TABLE VALUES; prints TAP, whose numbers begin at -v n=1, and counts. With
# -v form=1, and a table alone: only whether its rows have that form.
BEGIN { FS = " [|] " }

# Whether a value of a table is that value.
function is(wanted, value) {
	if (wanted ~ /^\/.*\/$/)
		return value ~ ("^(" substr(wanted, 2, length(wanted) - 2) ")$")
	return wanted == value
}

# A pattern of keys, in which * stands for a number, as a regular expression.
function pattern(key, out) {
	out = key
	gsub(/[.+?()]/, "\\\\&", out)
	gsub(/\*/, "[0-9]+", out)
	return "^" out "$"
}

function bad(text) {
	print "not ok " n++ " " text
	failed = 1
}

FNR == 1 { files++ }

files == 1 && (/^#/ || /^$/) { next }

files == 1 {
	sub(/ +$/, "", $NF)
	if (NF != 4 && NF != 6 || $4 !~ /^(dump|source|inferred)$/ || $1 in seen) {
		bad("row " FNR " of the table has four or six columns, and a key of its own: " $0)
		next
	}
	seen[$1] = 1
	key[++rows] = $1; real[rows] = $2; source[rows] = $3 ", " $4
	ours[rows] = $5; reason[rows] = $6
	next
}

{
	at = index($0, " ")
	names[++count] = substr($0, 1, at - 1)
	value_of[names[count]] = substr($0, at + 1)
}

END {
	if (form) {
		if (!failed)
			print "ok " n++ " " rows " rows in their form: " FILENAME
		exit failed
	}
	for (r = 1; r <= rows; r++) {
		hits = key[r] in value_of
		if (hits)
			check(r, key[r], value_of[key[r]])
		if (key[r] ~ /\*/) {
			match_key = pattern(key[r])
			for (i = 1; i <= count; i++)
				if (names[i] ~ match_key) { hits++; check(r, names[i], value_of[names[i]]) }
		}
		if (!hits)
			check(r, key[r], "absent")
	}
	for (r = 1; r <= rows; r++)
		if (reason[r] != "" && !used[r])
			bad(key[r] ": the reason has no difference any more: " reason[r])
	printf "# %d rows, %d values compared: %d as on a card, %d differ with a reason, %d without\n",
		rows, compared, same, explained, unexplained
	if (!compared)
		bad("there is something to compare")
	if (!failed)
		print "ok " n++ " " rows " rows, " compared " values"
	exit failed
}

function check(r, name, value) {
	compared++
	if (reason[r] == "") {
		if (is(real[r], value)) { same++; return }
		unexplained++
		bad(name ": a card has " real[r] " (" source[r] "), here it is " value)
		return
	}
	if (is(real[r], value)) { same++; return }
	used[r] = 1
	if (is(ours[r], value)) {
		explained++
		printf "# differs: %s: a card has %s, here it is %s: %s\n", name, real[r], value, reason[r]
	} else {
		unexplained++
		bad(name ": a card has " real[r] " (" source[r] "), here " ours[r] " was known, and it is " value)
	}
}
