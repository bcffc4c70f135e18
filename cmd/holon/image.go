package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner/engine"
	"holon/runner/projectimage"
	"holon/runner/settings"
	"holon/state"
)

func newImageCommand(streams Streams) *cobra.Command {
	return group("image", "Build the image of a project", `A project says in .holon/Dockerfile or devcontainer.json what its image has. Runs use
that image without a flag once it is built.`, newImageBuild(streams))
}

// builtImage is what holon image build did.
type builtImage struct {
	Image  string `json:"image"`
	Recipe string `json:"recipe"` // file of the repository
	Built  bool   `json:"built"`  // false: it was there
}

func newImageBuild(streams Streams) *cobra.Command {
	b, dir, force := &base{streams: streams}, "", false
	cmd := b.command("build", "Build the image that a project asks for", func(ctx context.Context) error {
		done, err := b.buildImage(ctx, dir, force)
		return b.showRow(done, err, done.Image)
	})
	cmd.Long = `Build the image of a project from .holon/Dockerfile, or from the image, the build and
the postCreateCommand of a devcontainer.json, and print its name. What the repository
says is run, in containers with the network: read it first.

The build sees the directory of the recipe and the files at the top that name
dependencies, such as go.mod, package.json and their locks. The image is named by the
content of these; one that is there is not built again.`
	cmd.Flags().StringVar(&dir, "for", "", "`directory` of the project (default the current one)")
	cmd.Flags().BoolVar(&force, "force", false, "build it again")
	return cmd
}

func (b *base) buildImage(ctx context.Context, dir string, force bool) (done builtImage, err error) {
	if dir, err = filepath.Abs(dir); err == nil {
		dir, err = existingDir(dir)
	}
	if err != nil {
		return done, usage("--for", err.Error(), "name an existing directory")
	}
	recipe, err := projectimage.Find(settings.RepositoryTop(dir))
	if err != nil {
		return done, err
	}
	if recipe == nil {
		return done, usage("--for", "the project says nothing of its image",
			"write a .holon/Dockerfile, for example one that begins with FROM "+settings.DefaultImage)
	}
	done = builtImage{Image: recipe.Tag, Recipe: recipe.File}
	there, err := b.hasImage(ctx, recipe.Tag)
	if err != nil || there && !force {
		return done, err
	}
	done.Built = true
	return done, recipe.Build(ctx, b.streams.Err)
}

// hasImage reports whether the docker engine has an image.
func (b *base) hasImage(ctx context.Context, name string) (bool, error) {
	eng, err := b.newEngine(settings.EngineDocker, engine.LinkAuto, b.home)
	if err != nil {
		return false, err
	}
	defer eng.Close()
	err = eng.(engine.Imager).CheckImage(ctx, name)
	if state.IsCode(err, engine.CodeImageNotFound) {
		return false, nil
	}
	return err == nil, err
}

// chooseImage has a run for which no image is set use that of its project, if it is built. Otherwise it says how.
func (o *runOptions) chooseImage(ctx context.Context) {
	image, why := o.projectImage(ctx, o.Loaded, o.Workspace)
	if image != "" {
		o.Image = image
	} else if why != "" && !o.Quiet {
		o.streams.say(fmt.Sprintf("holon: %s; this run has %s", visible.OneLine(why, 600), o.Image))
	}
}

// projectImage is the image of a project, if it is built and nothing else is set, or else why a project with a recipe
// has none.
func (b *base) projectImage(ctx context.Context, set *settings.Loaded, workspace string) (image, why string) {
	if set.Origin("image").Layer != settings.LayerDefault || engineName(set.Engine) != settings.EngineDocker {
		return "", ""
	}
	recipe, err := projectimage.Find(settings.RepositoryTop(workspace))
	if e, ok := errors.AsType[*state.Error](err); ok {
		return "", e.Param + ": " + e.Message
	}
	if recipe == nil || err != nil {
		return "", "" // the run says why the workspace cannot be read
	}
	switch there, err := b.hasImage(ctx, recipe.Tag); {
	case err != nil: // so does it of the engine
		return "", ""
	case there:
		return recipe.Tag, ""
	}
	return "", "the image of " + recipe.File + " is not built; build it with: holon image build"
}
