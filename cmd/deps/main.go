// temporary: keeps go.mod complete while packages are being written
package main

import (
	_ "github.com/aymanbagabas/go-udiff"
	_ "github.com/caarlos0/env/v11"
	_ "github.com/docker/docker/api/types/container"
	_ "github.com/docker/docker/api/types/filters"
	_ "github.com/docker/docker/api/types/image"
	_ "github.com/docker/docker/api/types/mount"
	_ "github.com/docker/docker/client"
	_ "github.com/docker/docker/errdefs"
	_ "github.com/docker/docker/pkg/stdcopy"
	_ "github.com/docker/go-units"
	_ "github.com/getkin/kin-openapi/openapi3"
	_ "github.com/go-chi/chi/v5"
	_ "github.com/go-chi/chi/v5/middleware"
	_ "github.com/go-git/go-git/v5"
	_ "github.com/gofrs/flock"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/jsonschema-go/jsonschema"
	_ "github.com/oklog/ulid/v2"
	_ "github.com/openai/openai-go/v3/responses"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/cobra"
	_ "github.com/tmaxmax/go-sse"
	_ "go.uber.org/goleak"
	_ "go.yaml.in/yaml/v3"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "pgregory.net/rapid"
)

func main() {}
