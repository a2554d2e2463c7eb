package github

import "time"

// The structs below cover what this service, or a feed behind it, may ask for. Payloads have several times
// as much; what has no field here is not decoded. A pointer is nil where the payload has null or nothing.

// User is an account: a person, a bot or an organization.
type User struct {
	Login     string `bson:"login"`
	ID        int64  `bson:"id"`
	NodeID    string `bson:"node_id"`
	Type      string `bson:"type"`
	SiteAdmin bool   `bson:"site_admin"`
	HTMLURL   string `bson:"html_url"`
	// Name and Email are there in push events only.
	Name  *string `bson:"name"`
	Email *string `bson:"email"`
}

// Organization owns the repository, if no person does.
type Organization struct {
	Login       string  `bson:"login"`
	ID          int64   `bson:"id"`
	NodeID      string  `bson:"node_id"`
	Description *string `bson:"description"`
}

// Installation is the app installation that the webhook belongs to.
type Installation struct {
	ID     int64  `bson:"id"`
	NodeID string `bson:"node_id"`
}

// Repository is where the event happened.
type Repository struct {
	ID              int64     `bson:"id" echoes:"required"`
	NodeID          string    `bson:"node_id"`
	Name            string    `bson:"name"`
	FullName        string    `bson:"full_name" echoes:"required"`
	Private         bool      `bson:"private"`
	Owner           User      `bson:"owner"`
	HTMLURL         string    `bson:"html_url"`
	Description     *string   `bson:"description"`
	Fork            bool      `bson:"fork"`
	CreatedAt       Moment    `bson:"created_at"`
	UpdatedAt       time.Time `bson:"updated_at"`
	PushedAt        *Moment   `bson:"pushed_at"`
	Homepage        *string   `bson:"homepage"`
	Size            int64     `bson:"size"`
	StargazersCount int       `bson:"stargazers_count"`
	ForksCount      int       `bson:"forks_count"`
	OpenIssuesCount int       `bson:"open_issues_count"`
	Language        *string   `bson:"language"`
	HasIssues       bool      `bson:"has_issues"`
	Archived        bool      `bson:"archived"`
	Disabled        bool      `bson:"disabled"`
	License         *License  `bson:"license"`
	IsTemplate      *bool     `bson:"is_template"`
	Topics          []string  `bson:"topics"`
	Visibility      *string   `bson:"visibility"`
	DefaultBranch   string    `bson:"default_branch"`
	MasterBranch    *string   `bson:"master_branch"`
	// CustomProperties have names and values (text, a list of texts, null) that the organization chose.
	CustomProperties map[string]any `bson:"custom_properties"`
}

// License is the license of a repository.
type License struct {
	Key    string  `bson:"key"`
	Name   string  `bson:"name"`
	SPDXID string  `bson:"spdx_id"`
	URL    *string `bson:"url"`
}

// Commit is a commit of a push.
type Commit struct {
	ID       string `bson:"id" echoes:"required"`
	TreeID   string `bson:"tree_id"`
	Distinct bool   `bson:"distinct"`
	Message  string `bson:"message"`
	// Timestamp comes with the author's offset, as in 2019-05-15T17:20:41+02:00, and is UTC here.
	Timestamp time.Time `bson:"timestamp"`
	URL       string    `bson:"url"`
	Author    Signature `bson:"author"`
	Committer Signature `bson:"committer"`
	Added     []string  `bson:"added"`
	Removed   []string  `bson:"removed"`
	Modified  []string  `bson:"modified"`
}

// Signature is who Git says it was, with the account if GitHub knows it.
type Signature struct {
	Name     string     `bson:"name"`
	Email    *string    `bson:"email"`
	Username *string    `bson:"username"`
	Date     *time.Time `bson:"date"`
}

// Issue is an issue, or a pull request seen as one.
type Issue struct {
	ID                int64            `bson:"id" echoes:"required"`
	NodeID            string           `bson:"node_id"`
	Number            int              `bson:"number" echoes:"required"`
	HTMLURL           string           `bson:"html_url"`
	Title             string           `bson:"title"`
	User              User             `bson:"user"`
	Labels            []Label          `bson:"labels"`
	State             string           `bson:"state"`
	StateReason       *string          `bson:"state_reason"`
	Locked            bool             `bson:"locked"`
	ActiveLockReason  *string          `bson:"active_lock_reason"`
	Assignee          *User            `bson:"assignee"`
	Assignees         []User           `bson:"assignees"`
	Milestone         *Milestone       `bson:"milestone"`
	Comments          int              `bson:"comments"`
	CreatedAt         time.Time        `bson:"created_at"`
	UpdatedAt         time.Time        `bson:"updated_at"`
	ClosedAt          *time.Time       `bson:"closed_at"`
	AuthorAssociation string           `bson:"author_association"`
	Draft             *bool            `bson:"draft"`
	PullRequest       *PullRequestLink `bson:"pull_request"`
	Body              *string          `bson:"body"`
	Reactions         *Reactions       `bson:"reactions"`
}

// PullRequestLink marks an issue that is a pull request.
type PullRequestLink struct {
	HTMLURL  string     `bson:"html_url"`
	MergedAt *time.Time `bson:"merged_at"`
}

// Label is a label of an issue or a pull request.
type Label struct {
	ID          int64   `bson:"id"`
	NodeID      string  `bson:"node_id"`
	Name        string  `bson:"name"`
	Color       string  `bson:"color"`
	Default     bool    `bson:"default"`
	Description *string `bson:"description"`
}

// Milestone groups issues.
type Milestone struct {
	ID           int64      `bson:"id"`
	Number       int        `bson:"number"`
	Title        string     `bson:"title"`
	Description  *string    `bson:"description"`
	Creator      *User      `bson:"creator"`
	State        string     `bson:"state"`
	OpenIssues   int        `bson:"open_issues"`
	ClosedIssues int        `bson:"closed_issues"`
	CreatedAt    time.Time  `bson:"created_at"`
	UpdatedAt    time.Time  `bson:"updated_at"`
	DueOn        *time.Time `bson:"due_on"`
	ClosedAt     *time.Time `bson:"closed_at"`
}

// Comment is a comment on an issue or a pull request.
type Comment struct {
	ID                int64      `bson:"id" echoes:"required"`
	NodeID            string     `bson:"node_id"`
	HTMLURL           string     `bson:"html_url"`
	User              User       `bson:"user"`
	CreatedAt         time.Time  `bson:"created_at"`
	UpdatedAt         time.Time  `bson:"updated_at"`
	AuthorAssociation string     `bson:"author_association"`
	Body              string     `bson:"body"`
	Reactions         *Reactions `bson:"reactions"`
}

// Reactions counts the reactions to an issue or a comment.
type Reactions struct {
	Total    int `bson:"total_count"`
	PlusOne  int `bson:"+1"`
	MinusOne int `bson:"-1"`
	Laugh    int `bson:"laugh"`
	Hooray   int `bson:"hooray"`
	Confused int `bson:"confused"`
	Heart    int `bson:"heart"`
	Rocket   int `bson:"rocket"`
	Eyes     int `bson:"eyes"`
}

// PullRequest is a pull request.
type PullRequest struct {
	ID                 int64      `bson:"id" echoes:"required"`
	NodeID             string     `bson:"node_id"`
	Number             int        `bson:"number"`
	HTMLURL            string     `bson:"html_url"`
	State              string     `bson:"state"`
	Locked             bool       `bson:"locked"`
	Title              string     `bson:"title"`
	User               User       `bson:"user"`
	Body               *string    `bson:"body"`
	CreatedAt          time.Time  `bson:"created_at"`
	UpdatedAt          time.Time  `bson:"updated_at"`
	ClosedAt           *time.Time `bson:"closed_at"`
	MergedAt           *time.Time `bson:"merged_at"`
	MergeCommitSHA     *string    `bson:"merge_commit_sha"`
	Assignee           *User      `bson:"assignee"`
	Assignees          []User     `bson:"assignees"`
	RequestedReviewers []User     `bson:"requested_reviewers"`
	RequestedTeams     []Team     `bson:"requested_teams"`
	Labels             []Label    `bson:"labels"`
	Milestone          *Milestone `bson:"milestone"`
	Head               Branch     `bson:"head"`
	Base               Branch     `bson:"base"`
	AuthorAssociation  string     `bson:"author_association"`
	Draft              bool       `bson:"draft"`
	Merged             bool       `bson:"merged"`
	// Mergeable and Rebaseable are nil until GitHub has found out.
	Mergeable           *bool  `bson:"mergeable"`
	Rebaseable          *bool  `bson:"rebaseable"`
	MergeableState      string `bson:"mergeable_state"`
	MergedBy            *User  `bson:"merged_by"`
	Comments            int    `bson:"comments"`
	ReviewComments      int    `bson:"review_comments"`
	MaintainerCanModify bool   `bson:"maintainer_can_modify"`
	Commits             int    `bson:"commits"`
	Additions           int    `bson:"additions"`
	Deletions           int    `bson:"deletions"`
	ChangedFiles        int    `bson:"changed_files"`
	// Links are the addresses of the pull request by their role, as in "html".
	Links map[string]Link `bson:"_links"`
}

// Link is an address.
type Link struct {
	Href string `bson:"href"`
}

// Branch is one side of a pull request. Repo is nil when the fork was deleted.
type Branch struct {
	Label string      `bson:"label"`
	Ref   string      `bson:"ref"`
	SHA   string      `bson:"sha"`
	User  *User       `bson:"user"`
	Repo  *Repository `bson:"repo"`
}

// Team is a team of an organization; teams nest.
type Team struct {
	ID     int64  `bson:"id"`
	Name   string `bson:"name"`
	Slug   string `bson:"slug"`
	Parent *Team  `bson:"parent"`
}

// Release is a release of a repository.
type Release struct {
	ID              int64      `bson:"id" echoes:"required"`
	NodeID          string     `bson:"node_id"`
	HTMLURL         string     `bson:"html_url"`
	TagName         string     `bson:"tag_name" echoes:"required"`
	TargetCommitish string     `bson:"target_commitish"`
	Name            *string    `bson:"name"`
	Draft           bool       `bson:"draft"`
	Prerelease      bool       `bson:"prerelease"`
	Author          User       `bson:"author"`
	CreatedAt       time.Time  `bson:"created_at"`
	PublishedAt     *time.Time `bson:"published_at"`
	Body            *string    `bson:"body"`
	Assets          []Asset    `bson:"assets"`
}

// Asset is a file of a release.
type Asset struct {
	ID                 int64     `bson:"id"`
	Name               string    `bson:"name"`
	Label              *string   `bson:"label"`
	ContentType        string    `bson:"content_type"`
	State              string    `bson:"state"`
	Size               int64     `bson:"size"`
	DownloadCount      int64     `bson:"download_count"`
	Digest             *string   `bson:"digest"`
	Uploader           *User     `bson:"uploader"`
	CreatedAt          time.Time `bson:"created_at"`
	UpdatedAt          time.Time `bson:"updated_at"`
	BrowserDownloadURL string    `bson:"browser_download_url"`
}
