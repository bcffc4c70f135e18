#!/bin/sh
# Tests of slugify. Exits with 1 when a case fails.
cd "$(dirname "$0")" || exit 2
. src/slug.sh

failed=0
check() {
	got=$(slugify "$1")
	if [ "$got" = "$2" ]; then
		echo "ok    '$1' -> '$got'"
	else
		echo "FAIL  '$1' -> '$got', want '$2'"
		failed=$((failed + 1))
	fi
}

check 'Readme' 'readme'
check 'release notes' 'release-notes'
check 'Version 2' 'version-2'
check 'Hello, World!' 'hello-world'
check '  spaces   around  ' 'spaces-around'
check 'a/b -- c' 'a-b-c'
check '!' ''

if [ "$failed" -gt 0 ]; then
	echo "$failed case(s) failed"
	exit 1
fi
echo "all cases pass"
