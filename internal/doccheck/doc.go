// Package doccheck keeps the documentation true. Its tests compile every block of Go in README.md and docs/, run
// or dry-run every command, follow every link, and compare tables with the code that they tell of.
//
// A block of Markdown is checked by its language:
//
//   - go: the blocks of a page are one package. It is generated for with echoesgen and vetted. A block is a file,
//     declarations or statements. What a reader imagines around it, a client or a type, stands in an HTML comment
//     directly above, which no reader sees: `<!-- with`, declarations, `-->`. Above a block that cannot share the
//     page's package stands `<!-- alone -->`.
//   - sh: a shell runs it, with the real programs and servers of the test's own, and what it prints is what a block
//     of text directly below shows. What cannot be run, what gets other arguments here, and what goes on until Ctrl-C,
//     is in the lists of standin_test.go. Above a block that belongs into a folder with a service stands
//     `<!-- in: FOLDER -->`, of which it gets a copy.
//   - js: mongosh scripts are run against a database with the collections of Pulse.
//   - json and mermaid are parsed, as far as that takes no browser.
//   - text is output, and stands for itself.
package doccheck
