package container

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"
)

// fetch brings the image to this machine, as far as the policy says.
func (h *helper) fetch(ctx context.Context) error {
	image := h.plan.Image
	if h.plan.Pull != PullAlways {
		_, err := h.api.ImageInspect(ctx, image)
		if err == nil {
			return nil
		}
		if !errdefs.IsNotFound(err) {
			return fmt.Errorf("image %s: %w", image, err)
		}
		if h.plan.Pull == PullNever {
			return fmt.Errorf("image %s is not on this machine, and `pull: never` forbids fetching it", image)
		}
	}
	login, err := h.login(image)
	if err != nil {
		return err
	}
	h.say("fetching image " + image)
	pulled, err := h.api.ImagePull(ctx, image, client.ImagePullOptions{RegistryAuth: login})
	if err == nil {
		defer pulled.Close()
		err = pulled.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("image %s cannot be fetched: %w%s", image, err, hint(err, login != ""))
	}
	return nil
}

// hint says what to do about what registries answer.
func hint(err error, loggedIn bool) string {
	text := err.Error()
	denied := errdefs.IsUnauthorized(err) || hasAny(text, "denied", "unauthorized", "no basic auth credentials")
	switch {
	case denied && loggedIn:
		return " (is the name right? the password this machine has for the registry does not open it)"
	case denied:
		return " (is the name right? for a private image, `docker login` as the user the worker runs as)"
	case errdefs.IsNotFound(err) || hasAny(text, "not found", "manifest unknown"):
		return " (is the name right, and its tag?)"
	case hasAny(text, "no such host", "connection refused", "timeout"):
		return " (the registry cannot be reached from this machine)"
	}
	return ""
}

func hasAny(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// logins is what is read of docker's config.json.
type logins struct {
	Auths map[string]struct {
		Auth          string `json:"auth"`
		IdentityToken string `json:"identitytoken"`
	} `json:"auths"`
}

// login is the password for the image's registry as the engine takes it; "" where this machine has none.
func (h *helper) login(image string) (string, error) {
	name, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("image %q is not the name of one: %w", image, err)
	}
	b, err := os.ReadFile(h.plan.Login)
	if err != nil {
		return "", nil //nolint:nilerr // nobody has logged in here, which most images do not need
	}
	var all logins
	if err := json.Unmarshal(b, &all); err != nil {
		return "", fmt.Errorf("the passwords of registries in %s cannot be read: %w", h.plan.Login, err)
	}
	host := reference.Domain(name)
	for _, key := range []string{host, "https://" + host, "https://index." + host + "/v1/"} {
		entry, found := all.Auths[key]
		if !found {
			continue
		}
		plain, err := base64.StdEncoding.DecodeString(entry.Auth)
		if err != nil {
			return "", fmt.Errorf("the password for %s in %s cannot be read: %w", host, h.plan.Login, err)
		}
		user, password, _ := strings.Cut(string(plain), ":")
		text, err := json.Marshal(registry.AuthConfig{Username: user, Password: password, IdentityToken: entry.IdentityToken, ServerAddress: host})
		return base64.URLEncoding.EncodeToString(text), err
	}
	return "", nil
}
