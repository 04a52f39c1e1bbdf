//! What the java.lang.Class of a class holds for it: static fields, and what its constants were resolved to.

use super::fields::Field;
use super::groups::Edge;
use super::heap::Heap;

impl Heap<'_> {
    /// Objects that the static fields of a class, and its constants, refer to. `mirror`: its java.lang.Class.
    pub fn statics(&self, class: u64, mirror: u64) -> Vec<(u64, Edge)> {
        // An array's class has neither.
        if self.helper(class).is_none_or(|helper| helper < 0) {
            return Vec::new();
        }
        let fields = self.static_fields(class);
        let held = fields.iter().filter_map(|field| {
            let to = self.reference(mirror, u64::from(field.offset))?;
            Some((to, Edge::field(field.offset)))
        });
        let constants = self.constants(class).map(|to| (to, Edge::CLASS));
        held.chain(constants).collect()
    }

    pub fn static_fields(&self, class: u64) -> Vec<Field> {
        let mut fields = self.fields(class).unwrap_or_default();
        fields.retain(|field| field.is_static);
        fields
    }

    /// The array of strings, lambdas and the like that the code of a class refers to.
    fn constants(&self, class: u64) -> Option<u64> {
        let pool = self.pointer(class, self.layout.instance.constants)?;
        let cache = self.pointer(pool, self.layout.pool.cache)?;
        self.handle(cache, self.layout.pool.references)
    }

    /// A field of an object that a class itself declares.
    pub fn field_named(&self, class: u64, name: &str) -> Option<Field> {
        let mut fields = self.declared(class)?.into_iter();
        let is_it = |field: &Field| self.field_name(class, *field).as_deref() == Some(name);
        fields.find(|field| !field.is_static && is_it(field))
    }
}
