# Reads the OpenAPI document of Open Responses and writes the facts in it that can be checked: names, types, required
# keys, words and bounds, without its prose. $sha256 is that of the document.
#
#	jq -rf derive.jq --arg sha256 "$(sha256sum < openapi.json | cut -d' ' -f1)" openapi.json > openresponses.json

# The keywords that are kept. Of allOf, oneOf and anyOf every member is; of properties every name.
def facts: ["$ref", "type", "enum", "required", "properties", "additionalProperties", "items", "allOf", "oneOf", "anyOf",
	"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties", "pattern"];

def reduce_schema:
	if type != "object" then . else
		with_entries(select(.key as $key | facts | index($key))
			| if .key == "properties" then .value |= map_values(reduce_schema)
			elif .key == "allOf" then .value |= (map(reduce_schema) | map(select(. != {}))) # {} was a description
			elif .value | type == "array" then .value |= map(reduce_schema)
			else .value |= reduce_schema end)
		| if keys == ["allOf"] and (.allOf | length) == 1 then .allOf[0] else . end
	end;

"{\"openapi\": \"3.1.0\", \"info\": {\"title\": \(.info.title | tojson), \"version\": \(.info.version | tojson)},",
"\"x-derived-from\": {\"sha256\": \($sha256 | tojson)}, \"paths\": {}, \"components\": {\"schemas\": {",
([.components.schemas | to_entries | sort_by(.key)[] | "\(.key | tojson): \(.value | reduce_schema | walk(if type == "object" then to_entries | sort_by(.key) | from_entries else . end) | tojson)"] | join(",\n")),
"}}}"
