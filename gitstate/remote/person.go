package remote

import (
	"cmp"
	"os"
	"os/user"

	"github.com/go-git/go-git/v5/config"
)

// Person is who a commit that somebody makes by hand is by, as git finds it: GIT_AUTHOR_NAME and GIT_AUTHOR_EMAIL, the
// configuration of the repository at dir, which may be empty, and that of the user; else the user's login.
func Person(dir string) (name, email string) {
	name, email = os.Getenv("GIT_AUTHOR_NAME"), os.Getenv("GIT_AUTHOR_EMAIL")
	var found []*config.Config
	if dir != "" {
		if _, common, err := locate(dir); err == nil {
			storage := OpenStorage(common)
			if c, err := storage.Config(); err == nil {
				found = append(found, c)
			}
			storage.Close()
		}
	}
	for _, scope := range []config.Scope{config.GlobalScope, config.SystemScope} {
		if c, err := config.LoadConfig(scope); err == nil {
			found = append(found, c)
		}
	}
	for _, c := range found {
		name, email = cmp.Or(name, c.Author.Name, c.User.Name), cmp.Or(email, c.Author.Email, c.User.Email)
	}
	login := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		login = u.Username
	}
	host, _ := os.Hostname()
	login = cmp.Or(login, "unknown")
	return cmp.Or(name, login), cmp.Or(email, login+"@"+cmp.Or(host, "localhost"))
}
