//! OTLP's protocol buffers (opentelemetry/proto/trace/v1/trace.proto and what it names), as far as they are used:
//! https://github.com/open-telemetry/opentelemetry-proto

use prost::{Message, Oneof};

use super::{Ended, Value};

/// The spans are of this kind: a server's.
const KIND_SERVER: i32 = 2;
/// Within the service.
const KIND_INTERNAL: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub struct ExportTraceServiceRequest {
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Scope {
    #[prost(string, tag = "1")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub name: String,
    #[prost(int32, tag = "6")]
    pub kind: i32,
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    #[prost(oneof = "Any", tags = "1, 3, 4")]
    pub value: Option<Any>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Any {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Whole(i64),
    #[prost(double, tag = "4")]
    Real(f64),
}

/// The body of a POST.
pub fn encode(batch: &[Ended]) -> Vec<u8> {
    let service = [("service.name", Value::Text("search".to_string()))];
    let spans = ScopeSpans {
        scope: Some(Scope {
            name: "search".to_string(),
        }),
        spans: batch.iter().map(span).collect(),
    };
    let resource_spans = ResourceSpans {
        resource: Some(Resource {
            attributes: attributes(&service),
        }),
        scope_spans: vec![spans],
    };
    let request = ExportTraceServiceRequest {
        resource_spans: vec![resource_spans],
    };
    request.encode_to_vec()
}

fn span(of: &Ended) -> Span {
    Span {
        trace_id: of.trace.to_vec(),
        span_id: of.id.to_vec(),
        parent_span_id: of.parent.clone(),
        name: of.name.to_string(),
        kind: if of.parent.is_empty() {
            KIND_SERVER
        } else {
            KIND_INTERNAL
        },
        start_time_unix_nano: of.start_ns,
        end_time_unix_nano: of.end_ns,
        attributes: attributes(&of.attributes),
    }
}

fn attributes(of: &[(&'static str, Value)]) -> Vec<KeyValue> {
    of.iter()
        .map(|(key, value)| KeyValue {
            key: key.to_string(),
            value: Some(AnyValue {
                value: Some(match value {
                    Value::Text(text) => Any::Text(text.clone()),
                    Value::Whole(whole) => Any::Whole(*whole),
                    Value::Real(real) => Any::Real(*real),
                }),
            }),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Theirs;
    use opentelemetry_proto::tonic::common::v1::any_value;

    use super::*;

    #[test]
    fn the_format_s_owners_read_what_is_written() {
        let child = Ended {
            trace: [7; 16],
            id: [9; 8],
            parent: vec![3; 8],
            name: "db.query",
            start_ns: 1_767_225_600_000_000_001,
            end_ns: u64::MAX,
            attributes: vec![
                ("db.operation.name", Value::Text("words".to_string())),
                ("rows", Value::Whole(-40)),
                ("queue_ms", Value::Real(0.25)),
            ],
        };
        let root = Ended {
            parent: Vec::new(),
            name: "http.request",
            ..child.clone()
        };
        let read = Theirs::decode(&encode(&[child.clone(), root])[..]).unwrap();
        let of_resource = &read.resource_spans[0];
        let attributes = &of_resource.resource.as_ref().unwrap().attributes;
        assert_eq!(attributes[0].key, "service.name");
        let spans = &of_resource.scope_spans[0].spans;
        assert_eq!(spans.len(), 2);
        assert_eq!(
            (&spans[0].trace_id[..], &spans[0].span_id[..]),
            (&[7; 16][..], &[9; 8][..])
        );
        assert_eq!(
            (&spans[0].parent_span_id[..], spans[0].kind),
            (&[3; 8][..], 1)
        );
        assert_eq!((spans[1].name.as_str(), spans[1].kind), ("http.request", 2));
        assert!(spans[1].parent_span_id.is_empty());
        let times = (spans[0].start_time_unix_nano, spans[0].end_time_unix_nano);
        assert_eq!(times, (child.start_ns, u64::MAX));
        let values: Vec<_> = spans[0]
            .attributes
            .iter()
            .map(|of| of.value.as_ref().unwrap().value.clone().unwrap())
            .collect();
        let expected = [
            any_value::Value::StringValue("words".to_string()),
            any_value::Value::IntValue(-40),
            any_value::Value::DoubleValue(0.25),
        ];
        assert_eq!(values, expected);
    }
}
