package table

import "github.com/berthq/berth/internal/cli/screen"

// fit chooses the width of each column so that a line takes at most limit columns (0 = any). First what may shrink
// does, the widest first; then columns that may go do, the highest Drop first (width 0); what is left stays whole.
func fit[T any](columns []Column[T], cells [][]Cell, limit int) []int {
	widths := natural(columns, cells)
	if limit <= 0 {
		return widths
	}
	for {
		over := lineWidth(widths) - limit
		if over <= 0 || shrink(columns, widths, over) {
			return widths
		}
		if !drop(columns, widths) {
			return widths
		}
		restore(columns, cells, widths)
	}
}

func natural[T any](columns []Column[T], cells [][]Cell) []int {
	widths := make([]int, len(columns))
	for j, c := range columns {
		widths[j] = screen.Width(c.Title)
		for _, line := range cells {
			widths[j] = max(widths[j], screen.Width(line[j].Text))
		}
	}
	return widths
}

func lineWidth(widths []int) int {
	total, shown := 0, 0
	for _, w := range widths {
		total += w
		if w > 0 {
			shown++
		}
	}
	return total + gap*max(shown-1, 0)
}

// shrink takes `over` columns from those that may shrink, one at a time from the widest, and reports whether that was
// enough.
func shrink[T any](columns []Column[T], widths []int, over int) bool {
	for ; over > 0; over-- {
		widest := -1
		for j, c := range columns {
			if c.Shrink > 0 && widths[j] > c.Shrink && (widest < 0 || widths[j] > widths[widest]) {
				widest = j
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
	}
	return true
}

func drop[T any](columns []Column[T], widths []int) bool {
	least := -1
	for j, c := range columns {
		if c.Drop > 0 && widths[j] > 0 && (least < 0 || c.Drop > columns[least].Drop) {
			least = j
		}
	}
	if least < 0 {
		return false
	}
	widths[least] = 0
	return true
}

// restore gives the remaining columns their natural width again: one that left may have made room enough.
func restore[T any](columns []Column[T], cells [][]Cell, widths []int) {
	for j, w := range natural(columns, cells) {
		if widths[j] > 0 {
			widths[j] = w
		}
	}
}
