// Package pulse is a durable publish/subscribe engine inside the MongoDB that a service already runs.
//
// An event is published once to a topic and delivered to every consumer group that subscribes to it. The
// clients of a group share its deliveries: each is claimed by one client under a lease, run by its
// handler, and settled by a write that only the lease's holder can make. A process that dies loses
// nothing; another one runs its deliveries again when their leases expire.
//
//	var OrderCreated = pulse.NewTopic[Order]("order.created")
//
//	client, err := pulse.Connect(ctx, uri, pulse.Config{ConsumerGroup: "billing", Database: "commerce"})
//	...
//	_, err = OrderCreated.Publish(ctx, client, order)
//	_, err = OrderCreated.Subscribe(ctx, client, func(ctx context.Context, e *pulse.Event[Order]) error {
//		return bill(ctx, e.ID, e.Data)
//	}, pulse.Unordered(), pulse.ExecutionVersion(2))
//
// Handlers run at least once, so they must be idempotent; the event's ID is the key for that. Batch
// handlers take up to a number of events a call, as one unit (SubscribeBatch).
//
// There is no broker and no second store: everything is in four collections of the service's own
// database, and a few commands to MongoDB serve hundreds of events. On a replica set or a sharded cluster
// an event reaches its handler within milliseconds by a change stream; polling is the safety net, and all
// there is on a standalone server.
package pulse
