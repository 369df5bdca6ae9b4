//! Whom a certificate is of: the subject's common name and organisations, and the other names of a server.
//!
//! In: names as text, or the name in a certificate. Out: the same for the library that writes certificates, or as text.

use std::net::IpAddr;

use rcgen::{DistinguishedName, DnType, SanType};
use x509_parser::x509::X509Name;

use crate::CertError;

/// Who a certificate speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The user's name in Kubernetes' eyes.
    pub common_name: String,
    /// The user's groups; at most two.
    pub organizations: Vec<String>,
}

/// A subject as it is written into a certificate.
pub(crate) fn distinguished_name(subject: &Subject) -> Result<DistinguishedName, CertError> {
    let mut name = DistinguishedName::new();
    // rcgen keeps one value per type; the second organisation goes in under its bare OID (2.5.4.10).
    let types = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
    if subject.organizations.len() > types.len() {
        return Err(CertError::TooManyOrganizations(subject.organizations.len()));
    }
    for (kind, organization) in types.into_iter().zip(&subject.organizations) {
        name.push(kind, organization.as_str());
    }
    name.push(DnType::CommonName, subject.common_name.as_str());
    Ok(name)
}

/// Common name and organisations of an X.509 name.
pub(crate) fn subject_of(name: &X509Name<'_>) -> Subject {
    let text = |value: &x509_parser::x509::AttributeTypeAndValue<'_>| value.as_str().ok().map(str::to_owned);
    Subject {
        common_name: name.iter_common_name().find_map(text).unwrap_or_default(),
        organizations: name.iter_organization().filter_map(text).collect(),
    }
}

/// One other name of a server: an address, or else a DNS name.
pub(crate) fn alternative_name(name: &str) -> Result<SanType, CertError> {
    Ok(match name.parse::<IpAddr>() {
        Ok(address) => SanType::IpAddress(address),
        Err(_) => SanType::DnsName(name.try_into().map_err(|_| CertError::Malformed("server name"))?),
    })
}
