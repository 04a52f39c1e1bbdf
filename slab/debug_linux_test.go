package slab

func explain(text string, log []byte) string { return explainCrash([]byte(text), log) }
