// Package jfr reads recordings of Java's Flight Recorder, format 2: those of Java 8u262 and later,
// of GraalVM's native images, and of async-profiler. It passes the events with a stack on, one by
// one. Memory is bounded by the largest chunk of the file.
//
// Source: jdk.jfr.internal.consumer of OpenJDK (ChunkHeader, ChunkParser, MetadataReader).
package jfr
