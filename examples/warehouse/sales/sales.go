// Package sales loads sales into a table of a warehouse.
package sales

import (
	"context"
	"fmt"
	"time"

	"github.com/orionjs/orion-go/echoes"
)

//go:generate go tool echoesgen

// Sale is a line of a receipt, as the tills publish it.
//
//echoes:topic sale.recorded
type Sale struct {
	Store    string    `bson:"store" echoes:"required"`
	Article  string    `bson:"article" echoes:"required"`
	Quantity int       `bson:"quantity"`
	Cents    int64     `bson:"cents"`
	SoldAt   time.Time `bson:"soldAt"`
}

// Row is a row of the table. EventID is its primary key: an event that is delivered again finds its row.
type Row struct {
	EventID string    `bson:"_id"`
	Store   string    `bson:"store"`
	Day     time.Time `bson:"day"`
	Article string    `bson:"article"`
	Sold    int       `bson:"sold"`
	Cents   int64     `bson:"cents"`
}

// Table is what rows are loaded into. Load stores all rows or returns an error, and leaves rows alone that are there
// already. In SQL it is one statement: INSERT INTO sales (...) VALUES (...), (...) ON CONFLICT (event_id) DO NOTHING.
type Table interface {
	Load(ctx context.Context, rows []Row) error
}

// Loader loads sales.
type Loader struct {
	Table Table
	// Loaded, when not nil, is told how many rows a batch had.
	Loaded func(rows int)
}

// Recorded loads up to 100 sales with one statement. A batch succeeds or is repeated as a whole, after 1 s, 2 s, 4 s
// and so on for eight minutes, so a table that is down for a while costs no sale. At most two batches
// are loaded at a time: more would not make the table faster.
//
//echoes:batch topic=sale.recorded batchSize=100 maxConcurrency=2 maxRetries=9 offsetReset=earliest
func (l *Loader) Recorded(ctx context.Context, sales []echoes.Item[Sale]) error {
	rows := make([]Row, len(sales))
	for i, sale := range sales {
		s := sale.Params
		rows[i] = Row{
			EventID: sale.EventID, Store: s.Store, Day: s.SoldAt.Truncate(24 * time.Hour),
			Article: s.Article, Sold: s.Quantity, Cents: s.Cents * int64(s.Quantity),
		}
	}
	if err := l.Table.Load(ctx, rows); err != nil {
		return fmt.Errorf("load %d sales: %w", len(rows), err)
	}
	if l.Loaded != nil {
		l.Loaded(len(rows))
	}
	return nil
}
