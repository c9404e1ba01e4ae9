package awsconfig

import (
	"context"
	"fmt"
	"iter"
)

// mostPages bounds a listing. A page has up to 1,000 items, and nobody has a million.
const mostPages = 1000

// paginator is one of the SDK's; O are the options of its client.
type paginator[P, O any] interface {
	HasMorePages() bool
	NextPage(ctx context.Context, options ...func(*O)) (*P, error)
}

// Pages are the pages of a listing, or an error as the last one.
func Pages[P, O any](ctx context.Context, pages paginator[P, O]) iter.Seq2[*P, error] {
	return func(yield func(*P, error) bool) {
		for n := 0; pages.HasMorePages(); n++ {
			if n == mostPages {
				yield(nil, fmt.Errorf("AWS sent %d pages and says that there are more", n))
				return
			}
			if page, err := pages.NextPage(ctx); !yield(page, err) || err != nil {
				return
			}
		}
	}
}
