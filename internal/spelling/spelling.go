// Package spelling finds what somebody meant who has mistyped a word.
package spelling

import "strings"

// Nearest returns the candidate closest to word, compared without regard to
// case, when it is close enough to be a slip of the fingers: at most two edits,
// and fewer than half of the word.
func Nearest(word string, candidates []string) (string, bool) {
	best, bestDistance := "", 3
	for _, c := range candidates {
		d := Distance(strings.ToLower(word), strings.ToLower(c))
		if d < bestDistance && 2*d < len(c) {
			best, bestDistance = c, d
		}
	}
	return best, best != ""
}

// Distance returns the number of single-character insertions, deletions,
// replacements and swaps of neighbours that turn a into b.
func Distance(a, b string) int {
	ar, br := []rune(a), []rune(b)
	before, prev := make([]int, len(br)+1), make([]int, len(br)+1)
	row := make([]int, len(br)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(ar); i++ {
		row[0] = i
		for j := 1; j <= len(br); j++ {
			cost := 1
			if ar[i-1] == br[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && ar[i-1] == br[j-2] && ar[i-2] == br[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(br)]
}
