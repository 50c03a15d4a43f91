//! What each member of an item or result may be. A row is a member: its name, its type, and whether it may be missing.

use crate::list_kind::ListKind;

/// The known members of an object. Others may be anything.
pub(super) type Shape = [Member];

pub(super) struct Member {
    pub(super) name: &'static str,
    pub(super) kind: Type,
    pub(super) need: Need,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Left out if it is null or of another type.
    Optional,
    /// Without it, the object is unfit.
    Required,
    /// Raw JSON that it has if it is missing or unfit.
    Default(&'static str),
    /// Raw JSON that it has if it is missing or null. Without another fit value, the object is unfit.
    DefaultIfNull(&'static str),
    /// It is the same as this member if it is missing or unfit.
    SameAs(&'static str),
}

#[derive(Clone, Copy)]
pub(super) enum Type {
    Text,
    /// An absolute URL, as pydantic's `AnyUrl`.
    Uri,
    Flag,
    /// A number of bytes or items: rmcp reads `u64`, pydantic `i64`.
    Count,
    /// A number from 0 to 1.
    Fraction,
    /// A date and a time with its offset.
    Time,
    /// A text or an integer.
    Token,
    OneOf(&'static [&'static str]),
    /// Any object.
    Object,
    /// An object with these members.
    Record(&'static Shape),
    /// An object with these members. Any other value but `false` declares the capability, too.
    Capability(&'static Shape),
    /// An object whose members all have this type.
    Map(&'static Type),
    List(&'static Type, Elements),
    /// The `type` of an input schema.
    InputKind,
    /// The `type` of an output schema for legacy agents.
    OutputKind,
    /// The `properties` of a schema.
    Properties,
    OutputSchema,
    /// One content block; its `type` decides.
    Content,
    /// The `structuredContent` of a result.
    Structured,
}

/// What an unfit element costs. A null element is left out in both cases.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Elements {
    /// Itself.
    Optional,
    /// The whole item.
    Required,
}

const fn optional(name: &'static str, kind: Type) -> Member {
    Member { name, kind, need: Need::Optional }
}

const fn required(name: &'static str, kind: Type) -> Member {
    Member { name, kind, need: Need::Required }
}

const META: Member = optional("_meta", Type::Object);
const TITLE: Member = optional("title", Type::Text);
const DESCRIPTION: Member = optional("description", Type::Text);
const MIME_TYPE: Member = optional("mimeType", Type::Text);
const ICONS: Member = optional("icons", Type::List(&Type::Record(ICON), Elements::Optional));
const ANNOTATED: Member = optional("annotations", Type::Record(ANNOTATIONS));

/// The rules of an item of a list.
pub(super) fn of_kind(kind: ListKind) -> &'static Shape {
    match kind {
        ListKind::Tools => TOOL,
        ListKind::Prompts => PROMPT,
        ListKind::Resources => RESOURCE,
        ListKind::Templates => TEMPLATE,
        ListKind::Skills => SKILL,
    }
}

const TOOL: &Shape = &[
    required("name", Type::Text),
    TITLE,
    DESCRIPTION,
    ICONS,
    required("inputSchema", Type::Record(INPUT_SCHEMA)),
    optional("outputSchema", Type::OutputSchema),
    optional("annotations", Type::Record(TOOL_ANNOTATIONS)),
    optional("execution", Type::Record(EXECUTION)),
    META,
];
const INPUT_SCHEMA: &Shape = &[
    Member { name: "type", kind: Type::InputKind, need: Need::DefaultIfNull("\"object\"") },
    PROPERTIES,
    REQUIRED,
    SCHEMA,
];
/// The outermost object of an output schema for legacy agents.
pub(super) const LEGACY_OUTPUT_SCHEMA: &Shape = &[required("type", Type::OutputKind), PROPERTIES, REQUIRED, SCHEMA];
pub(super) const OUTPUT_SCHEMA: &Shape = &[PROPERTIES, REQUIRED, SCHEMA];
const PROPERTIES: Member = optional("properties", Type::Properties);
const REQUIRED: Member = optional("required", Type::List(&Type::Text, Elements::Optional));
const SCHEMA: Member = optional("$schema", Type::Text);
const TOOL_ANNOTATIONS: &Shape = &[
    TITLE,
    optional("readOnlyHint", Type::Flag),
    optional("destructiveHint", Type::Flag),
    optional("idempotentHint", Type::Flag),
    optional("openWorldHint", Type::Flag),
];
const EXECUTION: &Shape = &[optional("taskSupport", Type::OneOf(&["required", "optional", "forbidden"]))];
const ICON: &Shape = &[
    required("src", Type::Text),
    MIME_TYPE,
    optional("sizes", Type::List(&Type::Text, Elements::Optional)),
    optional("theme", Type::OneOf(&["light", "dark"])),
];
const ANNOTATIONS: &Shape = &[
    optional("audience", Type::List(&Type::OneOf(&["user", "assistant"]), Elements::Optional)),
    optional("priority", Type::Fraction),
    optional("lastModified", Type::Time),
];
const PROMPT: &Shape = &[
    required("name", Type::Text),
    TITLE,
    DESCRIPTION,
    ICONS,
    optional("arguments", Type::List(&Type::Record(ARGUMENT), Elements::Required)),
    META,
];
const ARGUMENT: &Shape = &[required("name", Type::Text), TITLE, DESCRIPTION, optional("required", Type::Flag)];
const RESOURCE: &Shape = &[
    required("uri", Type::Uri),
    Member { name: "name", kind: Type::Text, need: Need::SameAs("uri") },
    TITLE,
    DESCRIPTION,
    ICONS,
    MIME_TYPE,
    optional("size", Type::Count),
    ANNOTATED,
    META,
];
const TEMPLATE: &Shape = &[
    required("uriTemplate", Type::Text),
    Member { name: "name", kind: Type::Text, need: Need::SameAs("uriTemplate") },
    TITLE,
    DESCRIPTION,
    ICONS,
    MIME_TYPE,
    ANNOTATED,
    META,
];
const SKILL: &Shape = &[required("uri", Type::Text), META];

pub(super) const SERVER_INFO: &Shape = &[
    required("name", Type::Text),
    Member { name: "version", kind: Type::Text, need: Need::Default("\"unknown\"") },
    TITLE,
    DESCRIPTION,
    ICONS,
    optional("websiteUrl", Type::Text),
];
pub(super) const CAPABILITIES: &Shape = &[
    optional("experimental", Type::Map(&Type::Object)),
    optional("extensions", Type::Map(&Type::Object)),
    optional("logging", Type::Capability(&[])),
    optional("completions", Type::Capability(&[])),
    optional("tasks", Type::Capability(&[])),
    optional("prompts", Type::Capability(LISTED)),
    optional("resources", Type::Capability(LISTED)),
    optional("tools", Type::Capability(LISTED)),
];
const LISTED: &Shape = &[optional("listChanged", Type::Flag), optional("subscribe", Type::Flag)];

const RESULT_TYPE: Member = optional("resultType", Type::Text);
const RESULT_META: Member = optional("_meta", Type::Record(&[optional("progressToken", Type::Token)]));

pub(super) const CALL_RESULT: &Shape = &[
    Member { name: "content", kind: Type::List(&Type::Content, Elements::Required), need: Need::DefaultIfNull("[]") },
    optional("structuredContent", Type::Structured),
    optional("isError", Type::Flag),
    RESULT_META,
    RESULT_TYPE,
];
pub(super) const PROMPT_RESULT: &Shape = &[
    DESCRIPTION,
    required("messages", Type::List(&Type::Record(MESSAGE), Elements::Required)),
    RESULT_META,
    RESULT_TYPE,
];
const MESSAGE: &Shape = &[required("role", Type::OneOf(&["user", "assistant"])), required("content", Type::Content)];
pub(super) const READ_RESULT: &Shape =
    &[required("contents", Type::List(&Type::Record(CONTENTS), Elements::Required)), RESULT_META, RESULT_TYPE];
/// Either a text or a blob: a null one beside the other is left out.
const CONTENTS: &Shape =
    &[required("uri", Type::Text), MIME_TYPE, optional("text", Type::Text), optional("blob", Type::Text), META];
pub(super) const COMPLETION_RESULT: &Shape =
    &[required("completion", Type::Record(COMPLETION)), RESULT_META, RESULT_TYPE];
const COMPLETION: &Shape = &[
    required("values", Type::List(&Type::Text, Elements::Required)),
    optional("total", Type::Count),
    optional("hasMore", Type::Flag),
];

/// The rules of a content block by its `type`.
pub(super) const CONTENT: &[(&str, &Shape)] = &[
    ("text", &[required("text", Type::Text), ANNOTATED, META]),
    ("image", MEDIA),
    ("audio", MEDIA),
    ("resource", &[required("resource", Type::Record(CONTENTS)), ANNOTATED, META]),
    ("resource_link", RESOURCE),
];
const MEDIA: &Shape = &[required("data", Type::Text), required("mimeType", Type::Text), ANNOTATED, META];
