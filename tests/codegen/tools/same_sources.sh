#!/bin/sh
# Whether a change leaves what is emitted as it was: genes, seeds, random draws, launches and sources of every sample kernel, byte for byte.
#
#   same_sources.sh dump PROGRAM FOLDER    PROGRAM is a planish-emit-dump; one document a set of samples
#   same_sources.sh compare BEFORE AFTER   prints how many kernels and sources there are; ends with 1 and names the sets that differ
set -eu
sets="small columns scans windows cross early parts"
case "${1:-}" in
dump)
  program=$2 folder=$3
  mkdir -p "$folder"
  for set in $sets; do
    flag=--$set
    [ "$set" = small ] && flag=--small
    "$program" $flag --genes --random 4 > "$folder/cuda-$set.json"
    "$program" $flag --genes --sms 8 --random 2 --seed 2 > "$folder/cuda8-$set.json"
    for arch in sapphirerapids haswell x86-64; do
      "$program" $flag --cpu $arch --sms 4 --genes --random 3 > "$folder/$arch-$set.json"
    done
    "$program" $flag --teams --sms 132 --shared 4096 --random 2 > "$folder/teams-$set.json"
    "$program" $flag --triton --random 2 > "$folder/triton-$set.json"
  done
  "$program" --small --windows --with down=4 --random 1 > "$folder/down.json"
  for set in large columns; do
    "$program" --large --$set --most 4 --random 1 > "$folder/large-$set.json"
  done
  ;;
compare)
  before=$2 after=$3 differ=0
  for file in "$before"/*.json; do
    name=$(basename "$file")
    cmp -s "$file" "$after/$name" || { echo "differs: $name"; differ=1; }
  done
  sources=$(cat "$after"/*.json | grep -o '"source":' | wc -l)
  kernels=$(cat "$after"/*.json | grep -o '"family":' | wc -l)
  echo "$(ls "$after" | wc -l) documents, $kernels kernels, $sources sources"
  exit $differ
  ;;
*)
  sed -n '2,5p' "$0" >&2
  exit 2
  ;;
esac
