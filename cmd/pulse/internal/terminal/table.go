package terminal

import (
	"fmt"
	"io"
	"strings"
)

// Table is rows under titles.
type Table struct {
	columns []Column
	rows    [][]string
}

// Column is one column of a Table.
type Column struct {
	Title string
	// Right aligns numbers at their end.
	Right bool
	// Most bounds the column's width in a terminal: longer text is cut. Elsewhere, where nobody scrolls sideways but
	// programs may search, the bound is that of a readable line. 0: no bound.
	Most int
	// Least lets the column shrink to that width when the terminal is narrow. 0: it never does, as one that people
	// copy from must not.
	Least int
}

// gap is the space between columns.
const gap = 2

// readable bounds the columns that have a bound where there is no terminal.
const readable = 160

// NewTable returns an empty table.
func NewTable(columns ...Column) *Table { return &Table{columns: columns} }

// Row appends a row with one cell for each column. Cells are cleaned, and empty ones shown as a dash.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(t.columns))
	for i := range row {
		row[i] = "-"
		if i < len(cells) && cells[i] != "" {
			row[i] = Clean(cells[i])
		}
	}
	t.rows = append(t.rows, row)
}

// Write writes the table into so many columns: columns that may shrink do, and where that is not enough each row
// becomes a block of lines. With 0, for no terminal, only columns with a bound are cut.
func (t *Table) Write(w io.Writer, columns int) error {
	if len(t.rows) == 0 {
		return nil
	}
	widths, fits := t.fit(columns)
	var b strings.Builder
	if !fits {
		for i, row := range t.rows {
			if i > 0 {
				b.WriteByte('\n')
			}
			fields := make([][2]string, len(row))
			for j, cell := range row {
				fields[j] = [2]string{strings.ToLower(t.columns[j].Title), cell}
			}
			Fields(&b, fields...)
		}
		_, err := io.WriteString(w, b.String())
		return err
	}
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = c.Title
	}
	for _, row := range append([][]string{titles}, t.rows...) {
		b.WriteString(t.line(row, widths))
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// fit returns the columns' widths, and whether the table fits with them.
func (t *Table) fit(columns int) (widths []int, fits bool) {
	widths = make([]int, len(t.columns))
	total := gap * (len(widths) - 1)
	for i, c := range t.columns {
		widths[i] = columnsOf(c.Title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], columnsOf(row[i]))
		}
		if c.Most > 0 {
			most := c.Most
			if columns == 0 {
				most = max(most, readable)
			}
			widths[i] = min(widths[i], max(most, columnsOf(c.Title)))
		}
		total += widths[i]
	}
	for columns > 0 && total > columns {
		// The widest of those that may goes first, so that they end up alike.
		widest := -1
		for i, c := range t.columns {
			if c.Least > 0 && widths[i] > max(c.Least, columnsOf(c.Title)) && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return nil, false
		}
		widths[widest]--
		total--
	}
	return widths, true
}

func (t *Table) line(cells []string, widths []int) string {
	var b strings.Builder
	for i, cell := range cells {
		cell = cut(cell, widths[i])
		pad := strings.Repeat(" ", widths[i]-columnsOf(cell))
		if t.columns[i].Right {
			cell = pad + cell
		} else {
			cell += pad
		}
		if i > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		b.WriteString(cell)
	}
	return strings.TrimRight(b.String(), " ")
}

// Number writes a whole number with commas between the thousands.
func Number(n int) string {
	digits := fmt.Sprint(max(n, -n))
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if n < 0 {
		return "-" + digits
	}
	return digits
}

// Plural is the number with the noun in its form: 1 event, 2 events, 2 deliveries.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, found := strings.CutSuffix(noun, "y"); found {
		return Number(n) + " " + stem + "ies"
	}
	return Number(n) + " " + noun + "s"
}
