package cli

// Nearest is the known word that a typed one probably meant, "" when none is near.
func Nearest(typed string, known []string) string {
	best, bestDistance := "", max(1, len(typed)/3)+1
	for _, k := range known {
		if d := distance(typed, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of neighbours between two words.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
