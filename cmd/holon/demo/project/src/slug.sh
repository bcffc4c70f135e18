# Functions for slugs. Source this file.

LC_ALL=C # letters are those of ASCII, whatever the user's locale says
export LC_ALL

slugify() {
	printf '%s\n' "$1" |
		tr '[:upper:]' '[:lower:]' |
		sed -e 's/[^a-z0-9]/-/g' -e 's/^-//' -e 's/-$//'
}
