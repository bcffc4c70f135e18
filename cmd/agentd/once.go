package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"holon/agentd/config"
	"holon/agentd/privilege"
	"holon/internal/redact"
	"holon/responses"
	"holon/responses/turns"
)

// maxRequest bounds the request file, as the server bounds a request body.
const maxRequest = 96 << 20

// runOnce runs one turn without a server. The input and output directories are
// the turn's own, so that a CI job can mount exactly two folders.
func runOnce(ctx context.Context, args []string, secrets *redact.Set, stdin io.Reader, stdout *redact.Writer,
	stderr io.Writer) error {
	cfg := config.Default()
	cfg.Dirs.Input, cfg.Dirs.Output, cfg.Dirs.State, cfg.Dirs.Workspace = "", "", "", "."
	request, asJSON, hasInput := "", false, false
	origins, err := configure("run", &cfg, args, stdout, func(fs *flag.FlagSet) func() config.Problems {
		fs.StringVar(&request, "request", "",
			"`file` with the request, a body of POST /responses; - for standard input")
		fs.BoolVar(&asJSON, "json", false, "print the response object instead of the answer's text")
		return func() (p config.Problems) {
			cfg.Server.Socket, cfg.Server.Listen = "", "" // there is no server
			if hasInput = cfg.Dirs.Input != ""; !hasInput {
				cfg.Dirs.Input = "."
			}
			if cfg.Dirs.State == "" { // an empty --output-dir is one mistake, not two
				cfg.Dirs.State = filepath.Join(cfg.Dirs.Output, "state")
			}
			if request == "" {
				p = append(p, config.Problem{Setting: "--request", What: "is missing",
					Remedy: "name a file with a body of POST /responses, or - for standard input"})
			}
			return append(p, missing("--workspace-dir", cfg.Dirs.Workspace, "--input-dir", cfg.Dirs.Input)...)
		}
	})
	var users *privilege.Users
	if errors.Is(err, flag.ErrHelp) || err != nil && request == "" {
		return err
	}
	if err == nil {
		users, err = separate(cfg)
	}
	req, refused := readRequest(request, stdin)
	if refused == nil {
		refused = onlyOutput(req, cfg.Dirs.Output)
	}
	if err = errors.Join(err, refused); err != nil {
		return err
	}
	req.Holon.OutputDir = cfg.Dirs.Output
	if hasInput {
		remove, err := giveInput(&cfg, req)
		if err != nil {
			return err
		}
		defer remove()
	}
	server, err := open(cfg, users, origins, secrets, newLog(stderr, slog.LevelWarn))
	if err != nil {
		return err
	}
	resp, err := server.Once(ctx, req)
	if err = errors.Join(unknown(err, cfg.Dirs.State), server.Close()); err != nil {
		return err
	}
	stdout.Allow(turns.ToolNames(turns.NamesOfTools(resp.Tools, resp.Output)))
	return answer(resp, asJSON, cfg.Dirs.State, stdout, stderr)
}

// giveInput makes the turn's files those of --input-dir, which commands cannot change.
func giveInput(cfg *config.Config, req *responses.Request) (remove func(), err error) {
	given := cfg.Dirs.Input
	if cfg.Dirs.Input, remove, err = readOnly(given); err != nil {
		return nil, fmt.Errorf("copy the directory of --input-dir: %w", err)
	}
	named := req.Holon.InputDir
	if below, ok := strings.CutPrefix(named, given+"/"); ok {
		req.Holon.InputDir = filepath.Join(cfg.Dirs.Input, below)
	} else if named == "" || named == given {
		req.Holon.InputDir = cfg.Dirs.Input
	}
	return remove, nil
}

// readOnly returns a directory with the files of dir that no command can change: dir itself on a file system that is
// mounted read-only, else a copy, which remove removes.
func readOnly(dir string) (_ string, remove func(), err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", nil, err
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		return dir, func() {}, nil
	}
	made, err := os.MkdirTemp("", "agentd-input-")
	if err != nil {
		return "", nil, err
	}
	permit := func(of fs.FileMode) error {
		return filepath.WalkDir(made, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Type()&fs.ModeSymlink != 0 {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			return os.Chmod(path, info.Mode().Perm()&0o111|of)
		})
	}
	remove = func() { _ = errors.Join(permit(0o700), os.RemoveAll(made)) }
	if err = errors.Join(os.CopyFS(made, os.DirFS(dir)), os.Chmod(made, 0o755)); err == nil {
		err = permit(0o444)
	}
	if err != nil {
		remove()
	}
	return made, remove, err
}

// missing reports which of the directories that flags name are not there. A server makes
// the one for working trees; here it is a mistake in a path.
func missing(flagsAndDirs ...string) (p config.Problems) {
	for at := range slices.Chunk(flagsAndDirs, 2) {
		if _, err := os.Stat(at[1]); at[1] != "" && errors.Is(err, fs.ErrNotExist) {
			p = append(p, config.Problem{Setting: at[0], What: fmt.Sprintf("there is no directory %s", at[1]),
				Remedy: "name one that exists"})
		}
	}
	return p
}

// onlyOutput refuses a request that names another directory for its output than the flag.
func onlyOutput(req *responses.Request, output string) error {
	dir := req.Holon.OutputDir
	if dir == "" || filepath.Join(output, dir) == output || filepath.Clean(dir) == output {
		return nil
	}
	e := responses.Invalid("holon.output_dir", responses.CodeInvalidValue,
		fmt.Sprintf("holon.output_dir is %q, but this turn's output goes to --output-dir", dir))
	e.Hint = "leave it out"
	return e
}

// unknown gives the error of a response that is not stored its usual remedy: the
// state directory is not the one of the process that stored it.
func unknown(err error, state string) error {
	e, ok := errors.AsType[*responses.Error](err)
	if !ok || e.Code != responses.CodePreviousNotFound {
		return err
	}
	hinted := *e
	hinted.Hint = fmt.Sprintf("--state-dir is %s; give the one of the run that made the response", state)
	return &hinted
}

func readRequest(path string, stdin io.Reader) (*responses.Request, error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, usageError{fmt.Errorf("--request: %w", err)}
		}
		defer f.Close()
		stdin = f
	}
	body, err := io.ReadAll(io.LimitReader(stdin, maxRequest+1))
	if err != nil { // also of a directory
		return nil, usageError{fmt.Errorf("--request: %w", err)}
	}
	if len(body) > maxRequest {
		return nil, usageError{fmt.Errorf("--request: is larger than %d MiB; give large files through --input-dir",
			maxRequest>>20)}
	}
	return responses.DecodeRequest(body)
}

// answer prints the result and chooses the exit code.
func answer(resp *responses.Response, asJSON bool, state string, stdout, stderr io.Writer) error {
	if asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(resp); err != nil {
			return err
		}
	} else if text := resp.OutputText(); text != "" {
		fmt.Fprintln(stdout, text)
	}
	switch resp.Status {
	case responses.StatusCompleted:
		return waiting(resp, state, stderr)
	case responses.StatusIncomplete:
		reason := resp.IncompleteDetails.Reason
		fmt.Fprintf(stderr, "agentd: the turn ended early: %s\n", reason)
		switch reason {
		case responses.ReasonTimeout:
			return exitError(exitDeadline)
		case responses.ReasonShutdown:
			return exitError(exitInterrupted)
		}
		return exitError(exitFailed)
	case responses.StatusCancelled:
		return exitError(exitInterrupted)
	}
	fmt.Fprintf(stderr, "agentd: %s\n", resp.Error.Message)
	return exitError(exitFailed) // whatever the reason: the request was accepted and the turn ran
}

// maxShown is how many bytes of a call's arguments are shown.
const maxShown = 500

// waiting names the calls that a completed response waits for, and how to go on.
// The calls of a completed response are all the client's: those of the container
// are not among its items as function calls.
func waiting(resp *responses.Response, state string, stderr io.Writer) error {
	var err error
	for _, item := range resp.Output {
		call, ok := item.(*responses.FunctionCall)
		if !ok {
			continue
		}
		err = exitError(exitWaiting)
		arguments, more := call.Arguments, ""
		if len(arguments) > maxShown {
			arguments, more = strings.ToValidUTF8(arguments[:maxShown], ""), fmt.Sprintf(" and %d bytes more",
				len(call.Arguments)-maxShown)
		}
		fmt.Fprintf(stderr, "agentd: the turn waits for the output of %q, call_id %q, arguments %q%s\n", call.Name,
			call.CallID, arguments, more)
	}
	switch {
	case err == nil:
	case resp.Store:
		fmt.Fprintf(stderr, "agentd: to go on, run a request with \"previous_response_id\": %q and a function_call_output "+
			"for each call_id, with --state-dir %s and another --output-dir\n", resp.ID, state)
	default:
		fmt.Fprintln(stderr, "agentd: to go on, run a request that repeats this conversation, with a "+
			"function_call_output for each call_id, and another --output-dir")
	}
	return err
}
