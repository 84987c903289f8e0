//! The implementation of `Element` for one type.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Fields, Generics, Index, Type, parse_quote};

use super::attr::{Form, is_packed};

/// `unsafe impl Element`. The claim that `PLAIN` makes is computed from the fields, so it is true.
pub(crate) fn implementation(input: &DeriveInput, form: Form) -> TokenStream {
    let name = &input.ident;
    let generics = bounded(input, form);
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    let (out, bytes) = (Ident::new("out", Span::mixed_site()), Ident::new("bytes", Span::mixed_site()));
    let (plain, encode, decode) = match (&input.data, form) {
        (_, Form::Serde) => {
            let span = own_span(name.span());
            (
                quote!(false),
                {
                    let no_state = refuse_state(&input.data);
                    quote_spanned!(span=> #no_state ::stradsap::__private::encode_serde(self, #out);)
                },
                quote_spanned!(span=> ::stradsap::__private::decode_serde::<Self>(#bytes)),
            )
        }
        (Data::Struct(data), Form::Fields) => {
            let packed = is_packed(&input.attrs);
            (plain(&data.fields), encode_struct(&data.fields, packed, &out), decode_struct(&data.fields, &bytes))
        }
        (Data::Enum(data), Form::Fields) => (quote!(false), encode_enum(data, &out), decode_enum(data, &bytes)),
        (Data::Union(_), Form::Fields) => (quote!(false), TokenStream::new(), TokenStream::new()),
    };
    let bits = match (&input.data, form) {
        (Data::Struct(data), Form::Fields) => bits(&data.fields),
        _ => TokenStream::new(),
    };
    let clone_over = if form == Form::Fields { clone_over(input) } else { TokenStream::new() };
    quote! {
        #[automatically_derived]
        // SAFETY: `PLAIN` holds only if all fields are plain, together as large as the type, and nothing is dropped; `BITS` with padding, too.
        unsafe impl #impl_generics ::stradsap::Element for #name #ty_generics #where_clause {
            const PLAIN: bool = #plain;
            #bits
            #clone_over

            fn encode(&self, #out: &mut ::std::vec::Vec<u8>) {
                #encode
            }

            fn decode(#bytes: &mut &[u8]) -> ::core::result::Result<Self, ::stradsap::DecodeError> {
                #decode
            }
        }
    }
}

/// Refuses fields whose types show state that changes behind a shared reference: serde would write them.
fn refuse_state(data: &Data) -> TokenStream {
    let fields: Vec<&syn::Field> = match data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|variant| &variant.fields).collect(),
        Data::Union(_) => Vec::new(),
    };
    let checks = fields.iter().map(|field| {
        let (ty, span) = (&field.ty, own_span(field.ty.span()));
        quote_spanned!(span=> let _ = |field: &#ty| (&::stradsap::__private::Probe(field)).check_element();)
    });
    quote! {{
        #[allow(unused_imports)]
        use ::stradsap::__private::{ShowsNone as _, ShowsState as _};
        #(#checks)*
    }}
}

/// Every type parameter is an element; with serde, the type itself is serialisable.
fn bounded(input: &DeriveInput, form: Form) -> Generics {
    let mut generics = input.generics.clone();
    let params: Vec<Ident> = generics.type_params().map(|param| param.ident.clone()).collect();
    if params.is_empty() {
        return generics;
    }
    let name = &input.ident;
    let (_, ty_generics, _) = input.generics.split_for_impl();
    let clause = generics.make_where_clause();
    for param in params {
        clause.predicates.push(match form {
            Form::Fields => parse_quote!(#param: ::stradsap::Element),
            Form::Serde => parse_quote! {
                #param: ::core::clone::Clone + ::core::marker::Send + ::core::marker::Sync + 'static
            },
        });
    }
    if form == Form::Serde {
        clause.predicates.push(parse_quote!(#name #ty_generics: ::stradsap::__private::SerdeElement));
    }
    generics
}

/// `<FieldType as Element>`, where rustc points if the field is no element: at its type.
fn as_element(ty: &Type) -> TokenStream {
    quote_spanned!(own_span(ty.span())=> <#ty as ::stradsap::Element>)
}

fn plain(fields: &Fields) -> TokenStream {
    let each = fields.iter().map(|field| as_element(&field.ty));
    let types = fields.iter().map(|field| &field.ty);
    quote! {
        true
            #(&& #each::PLAIN)*
            && ::core::mem::size_of::<Self>() == 0 #(+ ::core::mem::size_of::<#types>())*
            && !::core::mem::needs_drop::<Self>()
    }
}

fn bits(fields: &Fields) -> TokenStream {
    let each = fields.iter().map(|field| as_element(&field.ty));
    let flat = fields.iter().map(|field| as_element(&field.ty));
    let flat: Vec<TokenStream> = flat.map(|element| quote!(#element::FLAT)).collect();
    quote! {
        const BITS: bool = true #(&& #each::BITS)* && !::core::mem::needs_drop::<Self>();
        const FLAT: usize = if true #(&& #flat > 0)* { 0 #(+ #flat)* } else { 0 };
    }
}

/// Has an unused element keep its memory for the next: where all fields do, so that dropping it only frees memory. A type with parameters
/// isn't asked whether it has a `Drop` of its own.
fn clone_over(input: &DeriveInput) -> TokenStream {
    if !input.generics.params.is_empty() || is_packed(&input.attrs) {
        return TokenStream::new();
    }
    let (from, other) = (Ident::new("from", Span::mixed_site()), Ident::new("other", Span::mixed_site()));
    let (fields, body): (Vec<&syn::Field>, TokenStream) = match &input.data {
        Data::Struct(data) => {
            let each = data.fields.iter().zip(data.fields.members()).map(|(field, member)| {
                let element = as_element(&field.ty);
                quote_spanned!(own_span(field.ty.span())=> #element::clone_over(&self.#member, &mut #other.#member);)
            });
            (data.fields.iter().collect(), quote!(#(#each)*))
        }
        Data::Enum(data) => {
            let arms = data.variants.iter().map(|variant| {
                let name = &variant.ident;
                let bound = |of: &str| -> Vec<Ident> {
                    (0..variant.fields.len()).map(|at| format_ident!("{of}{at}", span = Span::mixed_site())).collect()
                };
                let (froms, others) = (bound("from"), bound("other"));
                let members: Vec<syn::Member> = variant.fields.members().collect();
                let each = variant.fields.iter().zip(froms.iter().zip(&others)).map(|(field, (from, other))| {
                    let element = as_element(&field.ty);
                    quote_spanned!(own_span(field.ty.span())=> #element::clone_over(#from, #other);)
                });
                quote! {
                    (Self::#name { #(#members: #froms,)* }, Self::#name { #(#members: #others,)* }) => { #(#each)* }
                }
            });
            let body = quote! {
                match (self, #other) {
                    #(#arms)*
                    #[allow(unreachable_patterns)]
                    (#from, #other) => ::core::clone::Clone::clone_from(#other, #from),
                }
            };
            (data.variants.iter().flat_map(|variant| &variant.fields).collect(), body)
        }
        Data::Union(_) => return TokenStream::new(),
    };
    let each = fields.iter().map(|field| {
        let (ty, element) = (&field.ty, as_element(&field.ty));
        quote!((#element::KEEPS_ROOM || !::core::mem::needs_drop::<#ty>()))
    });
    quote! {
        const KEEPS_ROOM: bool = {
            #[allow(unused_imports)]
            use ::stradsap::__private::DropsNothing as _;
            ::core::mem::needs_drop::<Self>() #(&& #each)* && !::stradsap::__private::HasDrop::<Self>::ITS_OWN
        };

        fn clone_over(&self, #other: &mut Self) {
            #body
        }
    }
}

fn encode_struct(fields: &Fields, packed: bool, out: &Ident) -> TokenStream {
    let each = fields.iter().enumerate().map(|(at, field)| {
        let element = as_element(&field.ty);
        let span = own_span(field.ty.span());
        let place = match &field.ident {
            Some(name) => quote_spanned!(span=> self.#name),
            None => {
                let index = Index { index: at as u32, span };
                quote_spanned!(span=> self.#index)
            }
        };
        // A packed field can't be borrowed, but copied.
        let place = if packed { quote_spanned!(span=> { #place }) } else { place };
        quote_spanned!(span=> #element::encode(&#place, #out);)
    });
    quote! {
        if ::stradsap::__private::is_plain::<Self>() {
            ::stradsap::__private::encode_slice(::core::slice::from_ref(self), #out);
        } else {
            #(#each)*
        }
    }
}

fn encode_enum(data: &syn::DataEnum, out: &Ident) -> TokenStream {
    let arms = data.variants.iter().zip(0u32..).map(|(variant, number)| {
        let name = &variant.ident;
        let bindings: Vec<Ident> =
            (0..variant.fields.len()).map(|at| format_ident!("field{at}", span = Span::mixed_site())).collect();
        let members = variant.fields.members();
        let each = variant.fields.iter().zip(&bindings).map(|(field, binding)| {
            let element = as_element(&field.ty);
            quote_spanned!(own_span(field.ty.span())=> #element::encode(#binding, #out);)
        });
        quote! {
            Self::#name { #(#members: #bindings,)* } => {
                ::std::vec::Vec::extend_from_slice(#out, &u32::to_ne_bytes(#number));
                #(#each)*
            }
        }
    });
    if data.variants.is_empty() {
        return quote! {
            let _ = #out;
            match *self {}
        };
    }
    quote!(match self { #(#arms)* })
}

/// `a: A::decode(bytes)?,` for each field, in the order in which they were written.
fn decode_fields(fields: &Fields, bytes: &Ident) -> TokenStream {
    let each = fields.iter().zip(fields.members()).map(|(field, member)| {
        let element = as_element(&field.ty);
        quote_spanned!(own_span(field.ty.span())=> #member: #element::decode(#bytes)?,)
    });
    quote!(#(#each)*)
}

fn decode_struct(fields: &Fields, bytes: &Ident) -> TokenStream {
    let each = decode_fields(fields, bytes);
    quote! {
        if ::stradsap::__private::is_plain::<Self>() {
            return ::stradsap::__private::decode_plain::<Self>(#bytes);
        }
        ::core::result::Result::Ok(Self { #each })
    }
}

fn decode_enum(data: &syn::DataEnum, bytes: &Ident) -> TokenStream {
    let arms = data.variants.iter().zip(0u32..).map(|(variant, number)| {
        let name = &variant.ident;
        let each = decode_fields(&variant.fields, bytes);
        quote!(#number => Self::#name { #each },)
    });
    let variants = data.variants.len() as u32;
    let found = Ident::new("found", Span::mixed_site());
    let refused = quote!(::core::result::Result::Err(::stradsap::__private::no_variant::<Self>(#found, #variants)));
    let number = quote!(let #found = <u32 as ::stradsap::Element>::decode(#bytes)?;);
    if data.variants.is_empty() {
        return quote!(#number #refused);
    }
    quote! {
        #number
        ::core::result::Result::Ok(match #found {
            #(#arms)*
            _ => return #refused,
        })
    }
}

/// The context of the macro's call, which shares its `self`, at a place in the user's source.
fn own_span(place: Span) -> Span {
    Span::call_site().located_at(place)
}
