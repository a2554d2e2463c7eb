package github

// Source is the part that all events have in common. It is embedded and inlined: its fields stand beside
// those of the event, in Go as in the payload.
type Source struct {
	Repository   Repository    `bson:"repository" echoes:"required"`
	Sender       User          `bson:"sender" echoes:"required"`
	Organization *Organization `bson:"organization"`
	Installation *Installation `bson:"installation"`
}

// Push is the payload of a push event: commits, or a branch or tag that was created or deleted.
type Push struct {
	Source  `bson:",inline"`
	Ref     string `bson:"ref" echoes:"required"`
	Before  string `bson:"before"`
	After   string `bson:"after"`
	Created bool   `bson:"created"`
	Deleted bool   `bson:"deleted"`
	Forced  bool   `bson:"forced"`
	// BaseRef is nil unless a branch was created from another one.
	BaseRef *string   `bson:"base_ref"`
	Compare string    `bson:"compare"`
	Commits []Commit  `bson:"commits"`
	Pusher  Signature `bson:"pusher"`
	// HeadCommit is nil when the branch or tag was deleted.
	HeadCommit *Commit `bson:"head_commit"`
}

// Issues is the payload of an issues event.
type Issues struct {
	Source `bson:",inline"`
	Action string `bson:"action" echoes:"required"`
	Issue  Issue  `bson:"issue" echoes:"required"`
	// The others depend on the action.
	Assignee  *User      `bson:"assignee"`
	Label     *Label     `bson:"label"`
	Milestone *Milestone `bson:"milestone"`
	Changes   *Changes   `bson:"changes"`
}

// IssueComment is the payload of an issue_comment event. Pull requests are issues here: then
// Issue.PullRequest is set.
type IssueComment struct {
	Source  `bson:",inline"`
	Action  string   `bson:"action" echoes:"required"`
	Issue   Issue    `bson:"issue" echoes:"required"`
	Comment Comment  `bson:"comment" echoes:"required"`
	Changes *Changes `bson:"changes"`
}

// PullRequestEvent is the payload of a pull_request event.
type PullRequestEvent struct {
	Source      `bson:",inline"`
	Action      string      `bson:"action" echoes:"required"`
	Number      int         `bson:"number"`
	PullRequest PullRequest `bson:"pull_request" echoes:"required"`
	// The others depend on the action.
	Assignee          *User    `bson:"assignee"`
	Label             *Label   `bson:"label"`
	RequestedReviewer *User    `bson:"requested_reviewer"`
	RequestedTeam     *Team    `bson:"requested_team"`
	Changes           *Changes `bson:"changes"`
}

// ReleaseEvent is the payload of a release event.
type ReleaseEvent struct {
	Source  `bson:",inline"`
	Action  string   `bson:"action" echoes:"required"`
	Release Release  `bson:"release" echoes:"required"`
	Changes *Changes `bson:"changes"`
}

// Changes says what the fields were before an edit, and where an issue was moved from.
type Changes struct {
	Title         *Change     `bson:"title"`
	Body          *Change     `bson:"body"`
	Name          *Change     `bson:"name"`
	OldIssue      *Issue      `bson:"old_issue"`
	OldRepository *Repository `bson:"old_repository"`
}

// Change is one field of Changes.
type Change struct {
	From string `bson:"from"`
}
