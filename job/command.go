package job

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Command is an argv. In a spec a list is the argv itself, its scalars taken as their text ([sleep, 30] works), and a
// string is a line for bash: ["bash", "-lc", line].
type Command []string

// ShellCommand is the argv that a command written as one string stands for.
func ShellCommand(line string) Command { return Command{"bash", "-lc", line} }

// UnmarshalJSON accepts a string or a list of strings, numbers and booleans.
func (c *Command) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	if len(data) > 0 && data[0] == '"' {
		var line string
		if err := json.Unmarshal(data, &line); err != nil {
			return err
		}
		*c = ShellCommand(line)
		return nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(data, &items); err != nil {
		return fmt.Errorf("command: want a string or a list of words: %w", err)
	}
	if items == nil {
		*c = nil
		return nil
	}
	argv := make(Command, len(items))
	for i, item := range items {
		word, err := scalarText(item)
		if err != nil {
			return fmt.Errorf("command: word %d: %w", i+1, err)
		}
		argv[i] = word
	}
	*c = argv
	return nil
}

// scalarText is the text of a JSON string, number or boolean as it was written.
func scalarText(data json.RawMessage) (string, error) {
	switch {
	case len(data) == 0:
		return "", fmt.Errorf("is empty")
	case data[0] == '"':
		var s string
		err := json.Unmarshal(data, &s)
		return s, err
	case data[0] == '[' || data[0] == '{':
		return "", fmt.Errorf("want text or a number, not a list or a map")
	case string(data) == "null":
		return "", fmt.Errorf(`want text or a number, not null (write "null" in quotes for the word)`)
	}
	return string(data), nil
}
