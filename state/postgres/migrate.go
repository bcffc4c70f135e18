package postgres

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/pressly/goose/v3"

	"holon/state"
	"holon/state/ledger"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema up to date, each migration in a transaction.
func migrate(ctx context.Context, db *sql.DB, log *slog.Logger) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	steps, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithDisableGlobalRegistry(true),
		goose.WithTableName("holon_schema_version"), goose.WithSlog(slog.New(slog.DiscardHandler)))
	if err != nil {
		return fmt.Errorf("prepare the migrations of the ledger: %w", err)
	}
	is, newest, err := steps.GetVersions(ctx)
	if err != nil {
		return err
	}
	if is > newest {
		return &state.Error{Code: ledger.CodeUnreadable,
			Message: fmt.Sprintf("the ledger has version %d, and this holon reads version %d", is, newest),
			Hint:    "use the holon that wrote it, or restore a dump of the database that was made before"}
	}
	done, err := steps.Up(ctx)
	if err == nil && len(done) > 0 && log != nil {
		log.Info("the schema of the ledger was migrated", "from", is, "to", newest)
	}
	return err
}
