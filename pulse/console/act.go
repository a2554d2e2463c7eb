package console

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/orionjs/orion-go/pulse/admin"
)

// act changes something, and returns what to say of it, as a part of the next page's address. The admin fences each change by the state that it finds, so
// that what was confirmed on an old page changes nothing that has moved on.
func (c *Console) act(ctx context.Context, values url.Values, by admin.By) (url.Values, error) {
	group, topic, id := values.Get("group"), values.Get("topic"), values.Get("id")
	said := url.Values{"done": {values.Get("action")}}
	var err error
	switch action := values.Get("action"); action {
	case retry:
		_, err = c.admin.Retry(ctx, id, by)
	case cancel:
		_, err = c.admin.Cancel(ctx, id, by)
	case pause:
		_, err = c.admin.Pause(ctx, group, topic, by)
	case resume:
		_, err = c.admin.Resume(ctx, group, topic, by)
	case retryMatching, cancelMatching:
		q, err := bulkQuery(values)
		if err != nil {
			return nil, err
		}
		change := c.admin.RetryMatching
		if action == cancelMatching {
			change = c.admin.CancelMatching
		}
		changes, err := change(ctx, q, admin.Bulk{By: by, Max: bulkMax})
		if err != nil && changes.Changed > 0 {
			err = fmt.Errorf("%s changed, then: %w", plural(changes.Changed, "delivery was", "deliveries were"), err)
		}
		said.Set("changed", strconv.Itoa(changes.Changed))
		said.Set("of", strconv.Itoa(changes.Matched))
		return said, err
	default:
		return nil, errNoAction
	}
	return said, err
}
