// An agent in Go, with the standard library alone: lists the tools, calls one, prints its answer.
//
//	go run agent.go [TOOL [ARGUMENTS-AS-JSON]]
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
)

type object = map[string]any

func main() {
	log.SetFlags(0)
	usual := []string{"demo__echo", `{"text": "hello"}`}
	said := append(os.Args[1:], usual[min(len(os.Args)-1, 2):]...)
	directory := os.Getenv("HOME") + "/.local/state/mcpd/run"
	session := os.Getenv("XDG_RUNTIME_DIR")
	if session == "" {
		session = fmt.Sprintf("/run/user/%d", os.Getuid())
	}
	if _, err := os.Stat(session); err == nil {
		directory = session + "/mcpd"
	}
	mcpd, err := net.Dial("unix", directory+"/mcp.sock")
	check(err)
	// One JSON message a line, either way.
	out, in, id := json.NewEncoder(mcpd), json.NewDecoder(mcpd), 0.0
	ask := func(method string, params object) object {
		id++
		check(out.Encode(object{"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
		for {
			var message object
			check(in.Decode(&message))
			// What has a method is no answer.
			if message["method"] != nil || message["id"] != id {
				continue
			}
			if message["error"] != nil {
				log.Fatalf("agent: %s: %v", method, message["error"].(object)["message"])
			}
			return message["result"].(object)
		}
	}

	me := object{"name": "agent", "version": "1"}
	ask("initialize", object{"protocolVersion": "2025-11-25", "capabilities": object{}, "clientInfo": me})
	check(out.Encode(object{"jsonrpc": "2.0", "method": "notifications/initialized"}))
	names := []any{"tools:"}
	for params, more := (object{}), true; more; {
		page := ask("tools/list", params)
		for _, tool := range page["tools"].([]any) {
			names = append(names, tool.(object)["name"])
		}
		params["cursor"], more = page["nextCursor"]
	}
	fmt.Println(names...)

	result := ask("tools/call", object{"name": said[0], "arguments": json.RawMessage(said[1])})
	for _, block := range result["content"].([]any) {
		text := block.(object)["text"]
		if result["isError"] == true {
			log.Fatalf("agent: %s failed: %v", said[0], text)
		}
		fmt.Println(text)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal("agent: ", err)
	}
}
