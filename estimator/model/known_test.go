package model

import (
	"fmt"
	"testing"
)

func TestEveryKnownConfigCanBeRead(t *testing.T) {
	t.Parallel()
	for name, c := range knownConfigs() {
		m, err := Read(c, name)
		if err != nil || m.Params() <= 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"meta-llama/Llama-3.1-8B", "Llama-3.1-8B", "META-LLAMA/llama-3.1-8b", "meta-llama/Llama-3.1-8B/"} {
		if _, ok := Known(name); !ok {
			t.Errorf("%q is not found", name)
		}
	}
	for _, name := range []string{"", "/", " ", "Llama", "somebody/else"} {
		if _, ok := Known(name); ok {
			t.Errorf("%q is found", name)
		}
	}
}

func ExampleRead() {
	c, err := Decode([]byte(`{"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 22, "num_attention_heads": 32,
		"num_key_value_heads": 4, "intermediate_size": 5632, "vocab_size": 32000}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := Read(c, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Params(), m.KVBytesPerToken(2))
	// Output: 1100048384 22528
}
