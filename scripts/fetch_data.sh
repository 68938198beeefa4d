#!/usr/bin/env bash
# Fetches the data of the paper's experiments.
#
#   scripts/fetch_data.sh [--year YYYY]... warcraft|pjm|all [DIR]
#
# warcraft  the Warcraft maps of Vlastelica et al. (2020), 0.9 GB packed, 4.5 GB
#           unpacked, to DIR/warcraft
# pjm       the authors' table of PJM prices and weather, 6 MB, to DIR/pjm; with
#           --year also the sources it is made of, for any year, to
#           DIR/pjm/raw/YYYY: prices of all zones and the weather of every zone
#
# DIR is the data folder of this repository unless given. A download that was
# interrupted goes on where it stopped when the script is run again. Nothing is
# kept that is not what it should be; what is there already is checked and not
# fetched again. Needs bash, tar, gzip, and curl or wget.
#
# The environment can replace what is built in, for mirrors of your own:
# WARCRAFT_URLS, WARCRAFT_MD5, WARCRAFT_FILES (a list of md5 sums), PJM_URLS,
# PJM_BYTES, EIA_URL (%s is the year), WEATHER_URL.
#
# Exit status: 0 if everything is there, 1 if something is not, 2 for a usage
# error.
set -u

root=$(cd "$(dirname "$0")/.." && pwd) || exit 1

: "${WARCRAFT_URLS:=https://edmond.mpg.de/api/access/datafile/102059
http://data.neuralnoise.com/warcraft_maps.tar.gz
https://linqs-data.soe.ucsc.edu/public/nesy-ebm-jmlr24/warcraft_maps.tar.gz}"
: "${WARCRAFT_MD5:=acea5ea60a47664ff189923a84814e96}"
: "${WARCRAFT_FILES:=$root/data/warcraft/official_npy_md5.txt}"

pjm_commit=be56c6d6654e6436096e626c93633e478e80ca0c
: "${PJM_URLS:=https://raw.githubusercontent.com/kziliask/RSPO_Plus/$pjm_commit/src/data/exp3/pjm_data.csv
https://cdn.jsdelivr.net/gh/kziliask/RSPO_Plus@$pjm_commit/src/data/exp3/pjm_data.csv}"
: "${PJM_BYTES:=5865106}"
: "${EIA_URL:=https://www.eia.gov/electricity/wholesalemarkets/csv/pjm_lmp_da_hr_zones_%s.csv}"
: "${WEATHER_URL:=https://archive-api.open-meteo.com/v1/archive}"

# A place in each zone, those of task/pjm.
zones='AECO 39.36 -74.42
AEP 39.96 -83.00
APS 39.63 -79.96
ATSI 41.50 -81.69
BGE 39.29 -76.61
COMED 41.88 -87.63
DAY 39.76 -84.19
DEOK 39.10 -84.51
DOM 37.54 -77.44
DPL 39.74 -75.55
DUQ 40.44 -80.00
JCPL 40.22 -74.01
METED 40.34 -75.93
PECO 39.95 -75.17
PENELEC 42.13 -80.09
PEPCO 38.91 -77.04
PPL 40.60 -75.48
PSEG 40.74 -74.17
RECO 41.11 -74.15'

say() { printf '%s\n' "$*" >&2; }

usage() {
	say "usage: scripts/fetch_data.sh [--year YYYY]... warcraft|pjm|all [DIR]"
	exit 2
}

# What is under way, removed on exit. Partial downloads stay.
stage=
cleanup() { if [ -n "$stage" ]; then rm -rf "$stage"; fi; }
trap cleanup EXIT
trap 'exit 1' HUP INT TERM

# size FILE: its bytes, 0 if there is none.
size() { if [ -f "$1" ]; then wc -c <"$1" | tr -d ' '; else echo 0; fi; }

# md5_of FILE
md5_of() {
	if command -v md5sum >/dev/null; then
		md5sum <"$1" | cut -d' ' -f1
	elif command -v md5 >/dev/null; then
		md5 -q "$1"
	else
		openssl md5 -r "$1" | cut -d' ' -f1
	fi
}

# sha256_of FILE
sha256_of() {
	if command -v sha256sum >/dev/null; then
		sha256sum <"$1" | cut -d' ' -f1
	elif command -v shasum >/dev/null; then
		shasum -a 256 "$1" | cut -d' ' -f1
	else
		openssl sha256 -r "$1" | cut -d' ' -f1
	fi
}

# get URL FILE: one transfer, which goes on where FILE ends.
get() {
	if command -v curl >/dev/null; then
		local quiet=-sS code status
		if [ -t 2 ]; then quiet=--progress-bar; fi
		set -- "$1" "$2" -fL --connect-timeout 30 --speed-limit 1 --speed-time 60 "$quiet"
		code=$(curl "${@:3}" -C - -w '%{http_code}' -o "$2" "$1")
		status=$?
		# 33 and 416: this server cannot go on from where the file ends.
		if [ "$status" = 33 ] || [ "$code" = 416 ]; then
			rm -f "$2"
			curl "${@:3}" -o "$2" "$1"
			status=$?
		fi
		return $status
	fi
	local quiet=-nv
	if [ -t 2 ]; then quiet=; fi
	wget ${quiet:+"$quiet"} -c --tries=1 --timeout=60 -O "$2" "$1"
}

# fetch URL FILE: transfers until the file has ended, as long as bytes come.
fetch() {
	local before
	while :; do
		before=$(size "$2")
		if get "$1" "$2"; then return 0; fi
		if [ "$(size "$2")" -le "$before" ]; then
			if [ "$before" = 0 ]; then rm -f "$2"; fi
			return 1
		fi
		say "the connection broke after $(size "$2") bytes; going on"
		sleep 1
	done
}

# obtain FILE CHECK URL...: fetches FILE from the first place that has it. CHECK
# is a command that gets the name of the file and says whether it is the right
# one; from a part of it, it must not say so. A file that is not is removed.
obtain() {
	local file=$1 check=$2 part=$1.part url again
	shift 2
	if [ -s "$part" ] && "$check" "$part" 2>/dev/null; then
		mv "$part" "$file"
		return 0
	fi
	for url in "$@"; do
		say "fetching $url"
		again=$(size "$part")
		while :; do
			if ! fetch "$url" "$part"; then
				say "cannot be fetched: $url"
				break
			fi
			if "$check" "$part"; then
				mv "$part" "$file"
				return 0
			fi
			rm -f "$part"
			if [ "$again" = 0 ]; then break; fi
			again=0
			say "a part of it was here before; fetching all of it"
		done
	done
	return 1
}

warcraft_is_archive() {
	local got
	got=$(md5_of "$1")
	if [ "$got" = "$WARCRAFT_MD5" ]; then return 0; fi
	say "wrong checksum: $1 has md5 $got, want $WARCRAFT_MD5"
	return 1
}

# warcraft_is_complete FOLDER: whether all files of the list are in it.
warcraft_is_complete() {
	local sum path ok=0
	while read -r sum path || [ -n "$sum" ]; do # the last line may have no end
		if [ ! -f "$1/$path" ]; then
			say "missing: $1/$path"
			ok=1
		elif [ "$(md5_of "$1/$path")" != "$sum" ]; then
			say "wrong checksum: $1/$path, want md5 $sum"
			ok=1
		fi
	done <"$WARCRAFT_FILES"
	return $ok
}

warcraft() {
	local dir=$1/warcraft name=warcraft_shortest_path_oneskin archive ours=0 inner
	archive=$dir/warcraft_maps.tar.gz
	# Without sums to compare with, every folder would pass for complete.
	if ! [ -s "$WARCRAFT_FILES" ] || ! [ -r "$WARCRAFT_FILES" ]; then
		say "no list of md5 sums in $WARCRAFT_FILES; it belongs to this repository, or WARCRAFT_FILES names another"
		return 1
	fi
	mkdir -p "$dir" || return 1
	if [ -e "$dir/$name" ]; then
		say "checking $dir/$name"
		if warcraft_is_complete "$dir"; then
			say "complete: $dir/$name"
			return 0
		fi
		say "$dir/$name is not the published data; remove it and run this again"
		return 1
	fi
	if [ -e "$archive" ]; then
		say "checking $archive"
		if ! warcraft_is_archive "$archive"; then
			say "remove it and run this again"
			return 1
		fi
	else
		# shellcheck disable=SC2086 # a list of addresses
		if ! obtain "$archive" warcraft_is_archive $WARCRAFT_URLS; then
			cat >&2 <<END
The Warcraft maps cannot be fetched from any place this script knows. By hand:
 1. open https://edmond.mpg.de/dataset.xhtml?persistentId=doi:10.17617/3.YJCQ5S
    (or https://doi.org/10.48804/KT2P3Z) in a browser
 2. download warcraft_maps.tar.gz (915,169,563 bytes, md5 $WARCRAFT_MD5)
 3. put it here: $archive
 4. run this script again: it checks and unpacks the file
or name a mirror of your own: WARCRAFT_URLS=https://... scripts/fetch_data.sh warcraft
Until then, train works on generated maps like them.
END
			return 1
		fi
		ours=1
	fi
	say "unpacking $archive"
	stage=$dir/.unpack.$$
	rm -rf "$stage"
	mkdir "$stage" || return 1
	if ! tar -xzf "$archive" -C "$stage"; then
		say "cannot unpack $archive; is there room for 4.5 GB in $dir?"
		return 1
	fi
	inner=$(find "$stage" -type d -name "$name" | head -n 1)
	if [ -z "$inner" ]; then
		say "no folder $name in $archive"
		return 1
	fi
	if ! warcraft_is_complete "$(dirname "$inner")"; then
		say "$archive does not hold the published data"
		return 1
	fi
	mv "$inner" "$dir/$name" || return 1
	cleanup
	stage=
	if [ "$ours" = 1 ]; then rm -f "$archive"; fi
	say "complete: $dir/$name"
}

pjm_is_table() {
	local bytes
	bytes=$(size "$1")
	if [ "$bytes" != "$PJM_BYTES" ]; then
		say "wrong size: $1 has $bytes bytes, want $PJM_BYTES"
		return 1
	fi
	case $(head -n 1 "$1") in
	client_id,date,total_lmp_0,*,client_name) return 0 ;;
	esac
	say "wrong content: $1 does not begin with the header client_id,date,total_lmp_0,...,client_name"
	return 1
}

# Only for whole files, as the next one.
# shellcheck disable=SC2329 # called by obtain
eia_is_table() {
	if head -n 8 "$1" | grep -q 'UTC Timestamp (Interval Ending)'; then return 0; fi
	say "wrong content: $1 has no column 'UTC Timestamp (Interval Ending)' in its first lines"
	return 1
}

# shellcheck disable=SC2329 # called by obtain
weather_is_answer() {
	if grep -q '"hourly"' "$1" && [ "$(tail -c 2 "$1" | tr -d '\r\n')" != "" ] && tail -c 2 "$1" | grep -q '}'; then return 0; fi
	say "wrong content: $1 is no JSON object with hourly weather"
	return 1
}

# pjm_year DIR YEAR: the raw sources of a year. Their publishers revise them, so
# that there is no checksum to want; the sums of what came are noted. Remove a
# file to fetch it anew.
pjm_year() {
	local dir=$1/raw/$2 year=$2 bad=0 prices zone latitude longitude last file
	mkdir -p "$dir" || return 1
	rm -f "$dir"/*.part # a part of these cannot be told from the whole
	prices=$dir/pjm_lmp_da_hr_zones_$year.csv
	# shellcheck disable=SC2059 # the address is a format
	if [ ! -f "$prices" ] && ! obtain "$prices" eia_is_table "$(printf "$EIA_URL" "$year")"; then
		say "no prices of $year; by hand: https://www.eia.gov/electricity/wholesalemarkets/data.php, PJM, day-ahead, zones, to $prices"
		bad=1
	fi
	# A day more than the year, for hours are in GMT; never in the future.
	last=$((year + 1))-01-01
	if [[ $last > $(date -u +%F) ]]; then last=$(date -u +%F); fi
	while read -r zone latitude longitude; do
		file=$dir/weather_$zone.json
		if [ -f "$file" ]; then continue; fi
		if ! obtain "$file" weather_is_answer "$WEATHER_URL?latitude=$latitude&longitude=$longitude&start_date=$year-01-01&end_date=$last&hourly=temperature_2m,relative_humidity_2m,wind_speed_10m,shortwave_radiation&timezone=GMT" </dev/null; then
			say "no weather of $zone in $year; the service limits requests: run this again later"
			bad=1
		fi
	done <<<"$zones"
	for file in "$dir"/*.csv "$dir"/*.json; do
		if [ -f "$file" ]; then printf '%s  %s\n' "$(sha256_of "$file")" "${file##*/}"; fi
	done >"$dir/SHA256SUMS.part" && mv "$dir/SHA256SUMS.part" "$dir/SHA256SUMS"
	if [ "$bad" = 0 ]; then say "complete: $dir"; fi
	return $bad
}

pjm() {
	local dir=$1/pjm year bad=0
	local table=$dir/pjm_data.csv
	mkdir -p "$dir" || return 1
	if [ -f "$table" ] && ! pjm_is_table "$table"; then
		say "remove it and run this again"
		return 1
	fi
	# shellcheck disable=SC2086 # a list of addresses
	if [ ! -f "$table" ] && ! obtain "$table" pjm_is_table $PJM_URLS; then
		cat >&2 <<END
The table of PJM prices cannot be fetched from any place this script knows. By hand:
 1. get src/data/exp3/pjm_data.csv of the repository kziliask/RSPO_Plus on GitHub,
    commit $pjm_commit
    (5,865,106 bytes)
 2. put it here: $table
 3. run this script again: it checks the file
END
		bad=1
	else
		say "complete: $table"
	fi
	for year in $years; do
		pjm_year "$dir" "$year" || bad=1
	done
	return $bad
}

years=''
what=''
data=''
while [ $# -gt 0 ]; do
	case $1 in
	-h | --help)
		sed -n '2,/^set -u/{/^#/s/^# \{0,1\}//p;}' "$0"
		exit 0
		;;
	--year)
		case ${2-} in
		[12][0-9][0-9][0-9]) years="$years $2" ;;
		*) usage ;;
		esac
		shift
		;;
	-*) usage ;;
	*)
		if [ -z "$what" ]; then
			what=$1
		elif [ -z "$data" ]; then
			data=$1
		else
			usage
		fi
		;;
	esac
	shift
done
data=${data:-$root/data}
if [ -n "$years" ] && [ "$what" = warcraft ]; then usage; fi
case $what in
warcraft | pjm | all) ;;
*) usage ;;
esac
if ! command -v curl >/dev/null && ! command -v wget >/dev/null; then
	say "neither curl nor wget is installed; install one of them"
	exit 1
fi

status=0
if [ "$what" != pjm ]; then warcraft "$data" || status=1; fi
cleanup
stage=
if [ "$what" != warcraft ]; then pjm "$data" || status=1; fi
exit $status
