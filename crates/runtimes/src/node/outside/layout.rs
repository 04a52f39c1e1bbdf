//! Where V8's objects have their fields, and the numbers of their types, as the program's own file publishes them.

use symbols::v8::Numbers;

/// Offsets are from the start of the object, in bytes.
#[derive(Debug, Clone)]
pub struct Layout {
    pub map: MapLayout,
    pub types: Types,
    pub property: PropertyLayout,
    pub function_shared: u64,
    pub function_context: u64,
    pub shared_script: Option<u64>,
    pub script_name: u64,
    pub buffer_store: u64,
    pub buffer_bytes: u64,
    /// Of a ScopeInfo, indices of words behind its map: how many variables, and their first name.
    pub scope_locals: u64,
    pub scope_names: u64,
    pub bytecode_data: u64,
    /// Of a ThinString.
    pub actual: u64,
}

/// Fields of a Map (a hidden class).
#[derive(Debug, Clone)]
pub struct MapLayout {
    pub words: u64,
    pub in_object: u64,
    pub instance_type: u64,
    pub flags2: u64,
    pub flags3: u64,
    pub prototype: u64,
    pub constructor: u64,
    pub descriptors: u64,
    pub is_dictionary_shift: u32,
    pub descriptors_mask: u64,
    pub descriptors_shift: u32,
}

/// What the details of a property say, and an entry of a DescriptorArray: indices of its words.
#[derive(Debug, Clone)]
pub struct PropertyLayout {
    pub header: u64,
    pub key: u64,
    pub details: u64,
    pub words: u64,
    pub location_mask: u64,
    pub location_shift: u32,
    pub field: u64,
    pub index_mask: u64,
    pub index_shift: u32,
}

/// Numbers of types that are treated in a way of their own.
#[derive(Debug, Clone, Default)]
pub struct Types {
    pub map: u16,
    /// Strings have smaller numbers.
    pub non_string: u16,
    /// From here on they are JavaScript objects.
    pub receiver: u16,
    pub first_context: u16,
    pub last_context: u16,
    pub function: u16,
    pub global: u16,
    pub js_map: u16,
    pub js_set: u16,
    pub weak_map: u16,
    pub weak_set: u16,
    pub weak_ref: u16,
    pub weak_cell: u16,
    pub buffer: u16,
    pub regexp: u16,
    pub array: u16,
    pub doubles: u16,
    pub bytes: u16,
    pub descriptors: [u16; 2],
    pub properties: u16,
    pub cell: u16,
    pub scope: u16,
    pub shared: u16,
    pub script: u16,
    pub feedback: u16,
    pub bytecode: u16,
    pub code: u16,
    /// Has instructions in it, which are not read.
    pub instructions: Option<u16>,
    /// What is left of dead objects.
    pub free: Option<u16>,
    pub template: u16,
    /// Numbers and symbols.
    pub primitives: [u16; 2],
    /// Other parts of compiled functions.
    pub compiled: Vec<u16>,
}

impl Layout {
    /// `None`: this V8 does not publish a number that is needed.
    pub fn of(numbers: &Numbers) -> Option<Layout> {
        if !numbers.has_whole_words() {
            return None;
        }
        let script = ["script_or_debug_info", "script"];
        let mut script = script.iter();
        Some(Layout {
            map: MapLayout::of(numbers)?,
            types: Types::of(numbers)?,
            property: PropertyLayout::of(numbers)?,
            function_shared: numbers.field("JSFunction", "shared")?,
            function_context: numbers.field("JSFunction", "context")?,
            shared_script: script.find_map(|name| numbers.field("SharedFunctionInfo", name)),
            script_name: numbers.field("Script", "name")?,
            buffer_store: numbers.field("JSArrayBuffer", "backing_store")?,
            buffer_bytes: numbers.field("JSArrayBuffer", "byte_length")?,
            scope_locals: numbers.get("scopeinfo_idx_ncontextlocals")?,
            scope_names: numbers.get("scopeinfo_idx_first_vars")?,
            bytecode_data: numbers.field("BytecodeArray", "data")?,
            actual: numbers.field("ThinString", "actual")?,
        })
    }
}

fn shift(numbers: &Numbers, name: &str) -> Option<u32> {
    let number = u32::try_from(numbers.get(name)?).ok()?;
    (number < 32).then_some(number)
}

impl MapLayout {
    fn of(numbers: &Numbers) -> Option<MapLayout> {
        let field = |name| numbers.field("Map", name);
        let descriptors = numbers.get("class_Map__instance_descriptors_offset");
        Some(MapLayout {
            words: field("instance_size_in_words")?,
            in_object: field("inobject_properties_start_or_constructor_function_index")?,
            instance_type: field("instance_type")?,
            flags2: field("bit_field2")?,
            flags3: field("bit_field3")?,
            prototype: field("prototype")?,
            constructor: field("constructor_or_back_pointer")?,
            descriptors: descriptors.or_else(|| field("instance_descriptors"))?,
            is_dictionary_shift: shift(numbers, "bit_field3_is_dictionary_map_shift")?,
            descriptors_mask: numbers.get("bit_field3_number_of_own_descriptors_mask")?,
            descriptors_shift: shift(numbers, "bit_field3_number_of_own_descriptors_shift")?,
        })
    }
}

impl PropertyLayout {
    fn of(numbers: &Numbers) -> Option<PropertyLayout> {
        // A number that is zero lies in .bss, where the file has nothing.
        let or_zero = |name| numbers.get(name).unwrap_or(0);
        Some(PropertyLayout {
            header: numbers.field("DescriptorArray", "header_size")?,
            key: or_zero("prop_desc_key"),
            details: numbers.get("prop_desc_details")?,
            words: numbers.get("prop_desc_size")?,
            location_mask: numbers.get("prop_location_mask")?,
            location_shift: shift(numbers, "prop_location_shift")?,
            field: or_zero("prop_location_Field"),
            index_mask: numbers.get("prop_index_mask")?,
            index_shift: shift(numbers, "prop_index_shift")?,
        })
    }
}

impl Types {
    fn of(numbers: &Numbers) -> Option<Types> {
        let of = |name: &str| numbers.instance_type(&format!("type_{name}_TYPE"));
        let compiled = [
            "FeedbackCell__FEEDBACK_CELL",
            "UncompiledDataWithPreparseData__UNCOMPILED_DATA_WITH_PREPARSE_DATA",
            "UncompiledDataWithoutPreparseData__UNCOMPILED_DATA_WITHOUT_PREPARSE_DATA",
            "PreparseData__PREPARSE_DATA",
            "CodeDataContainer__CODE_DATA_CONTAINER",
            "CodeWrapper__CODE_WRAPPER",
            "BytecodeWrapper__BYTECODE_WRAPPER",
            "InterpreterData__INTERPRETER_DATA",
            "ClosureFeedbackCellArray__CLOSURE_FEEDBACK_CELL_ARRAY",
        ];
        Some(Types {
            map: of("Map__MAP")?,
            non_string: numbers.instance_type("FirstNonstringType")?,
            receiver: of("JSProxy__JS_PROXY")?,
            first_context: numbers.instance_type("FirstContextType")?,
            last_context: numbers.instance_type("LastContextType")?,
            function: of("JSFunction__JS_FUNCTION")?,
            global: of("JSGlobalObject__JS_GLOBAL_OBJECT")?,
            js_map: of("JSMap__JS_MAP")?,
            js_set: of("JSSet__JS_SET")?,
            weak_map: of("JSWeakMap__JS_WEAK_MAP")?,
            weak_set: of("JSWeakSet__JS_WEAK_SET")?,
            weak_ref: of("JSWeakRef__JS_WEAK_REF")?,
            weak_cell: of("WeakCell__WEAK_CELL")?,
            buffer: of("JSArrayBuffer__JS_ARRAY_BUFFER")?,
            regexp: of("JSRegExp__JS_REG_EXP")?,
            array: of("FixedArray__FIXED_ARRAY")?,
            doubles: of("FixedDoubleArray__FIXED_DOUBLE_ARRAY")?,
            bytes: of("ByteArray__BYTE_ARRAY")?,
            descriptors: [
                of("DescriptorArray__DESCRIPTOR_ARRAY")?,
                of("StrongDescriptorArray__STRONG_DESCRIPTOR_ARRAY")?,
            ],
            properties: of("PropertyArray__PROPERTY_ARRAY")?,
            cell: of("PropertyCell__PROPERTY_CELL")?,
            scope: of("ScopeInfo__SCOPE_INFO")?,
            shared: of("SharedFunctionInfo__SHARED_FUNCTION_INFO")?,
            script: of("Script__SCRIPT")?,
            feedback: of("FeedbackVector__FEEDBACK_VECTOR")?,
            bytecode: of("BytecodeArray__BYTECODE_ARRAY")?,
            code: of("Code__CODE")?,
            instructions: of("InstructionStream__INSTRUCTION_STREAM"),
            // V8 13 does not publish it; types are in the order of their names there.
            free: of("FreeSpace__FREE_SPACE")
                .or(of("Hole__HOLE").and_then(|hole| hole.checked_sub(1))),
            template: of("FunctionTemplateInfo__FUNCTION_TEMPLATE_INFO")?,
            primitives: [of("Symbol__SYMBOL")?, of("HeapNumber__HEAP_NUMBER")?],
            compiled: compiled.into_iter().filter_map(of).collect(),
        })
    }

    /// FixedArray and the tables that are one: between it and FixedDoubleArray in every version.
    pub fn is_array(&self, own_type: u16) -> bool {
        (self.array..=self.doubles).contains(&own_type) || own_type == self.properties
    }

    pub fn is_context(&self, own_type: u16) -> bool {
        (self.first_context..=self.last_context).contains(&own_type)
    }

    /// JSFunction and the types derived from it, 17 in V8 12; whether it has a SharedFunctionInfo is asked, too.
    pub fn may_be_function(&self, own_type: u16) -> bool {
        const DERIVED_MAX: u16 = 20;
        (self.function..=self.function.saturating_add(DERIVED_MAX)).contains(&own_type)
    }
}
