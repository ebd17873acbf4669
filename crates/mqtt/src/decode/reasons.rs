//! Which reason codes each packet may carry [MQTT 5.0, section 2.4].

use crate::reason::ReasonCode;

/// [MQTT 5.0, table 3-1]
pub(super) const fn is_connack_reason(code: ReasonCode) -> bool {
    use ReasonCode as R;
    matches!(
        code,
        R::Success
            | R::UnspecifiedError
            | R::MalformedPacket
            | R::ProtocolError
            | R::ImplementationSpecificError
            | R::UnsupportedProtocolVersion
            | R::ClientIdentifierNotValid
            | R::BadUserNameOrPassword
            | R::NotAuthorized
            | R::ServerUnavailable
            | R::ServerBusy
            | R::Banned
            | R::BadAuthenticationMethod
            | R::TopicNameInvalid
            | R::PacketTooLarge
            | R::QuotaExceeded
            | R::PayloadFormatInvalid
            | R::RetainNotSupported
            | R::QoSNotSupported
            | R::UseAnotherServer
            | R::ServerMoved
            | R::ConnectionRateExceeded
    )
}

pub(super) const fn is_publish_reason(code: ReasonCode) -> bool {
    use ReasonCode as R;
    matches!(
        code,
        R::Success
            | R::NoMatchingSubscribers
            | R::UnspecifiedError
            | R::ImplementationSpecificError
            | R::NotAuthorized
            | R::TopicNameInvalid
            | R::PacketIdentifierInUse
            | R::QuotaExceeded
            | R::PayloadFormatInvalid
    )
}

pub(super) const fn is_release_reason(code: ReasonCode) -> bool {
    matches!(
        code,
        ReasonCode::Success | ReasonCode::PacketIdentifierNotFound
    )
}

/// [MQTT311-3.9.3-2]
pub(super) const fn is_suback_return_code(code: ReasonCode) -> bool {
    use ReasonCode as R;
    matches!(
        code,
        R::Success | R::GrantedQoS1 | R::GrantedQoS2 | R::UnspecifiedError
    )
}

pub(super) const fn is_suback_reason(code: ReasonCode) -> bool {
    use ReasonCode as R;
    matches!(
        code,
        R::Success
            | R::GrantedQoS1
            | R::GrantedQoS2
            | R::UnspecifiedError
            | R::ImplementationSpecificError
            | R::NotAuthorized
            | R::TopicFilterInvalid
            | R::PacketIdentifierInUse
            | R::QuotaExceeded
            | R::SharedSubscriptionsNotSupported
            | R::SubscriptionIdentifiersNotSupported
            | R::WildcardSubscriptionsNotSupported
    )
}

pub(super) const fn is_unsuback_reason(code: ReasonCode) -> bool {
    use ReasonCode as R;
    matches!(
        code,
        R::Success
            | R::NoSubscriptionExisted
            | R::UnspecifiedError
            | R::ImplementationSpecificError
            | R::NotAuthorized
            | R::TopicFilterInvalid
            | R::PacketIdentifierInUse
    )
}

/// [MQTT-3.14.2-1] and table 3-10: what either side may say.
const fn is_disconnect_reason(code: ReasonCode) -> bool {
    use ReasonCode as R;
    matches!(
        code,
        R::Success
            | R::UnspecifiedError
            | R::MalformedPacket
            | R::ProtocolError
            | R::ImplementationSpecificError
            | R::TopicNameInvalid
            | R::ReceiveMaximumExceeded
            | R::TopicAliasInvalid
            | R::PacketTooLarge
            | R::MessageRateTooHigh
            | R::QuotaExceeded
            | R::AdministrativeAction
            | R::PayloadFormatInvalid
    )
}

pub(super) const fn is_client_disconnect_reason(code: ReasonCode) -> bool {
    is_disconnect_reason(code) || matches!(code, ReasonCode::DisconnectWithWill)
}

/// `BadAuthenticationMethod` is missing in table 3-10 but section 2.4 lists it for DISCONNECT.
pub(super) const fn is_server_disconnect_reason(code: ReasonCode) -> bool {
    use ReasonCode as R;
    is_disconnect_reason(code)
        || matches!(
            code,
            R::NotAuthorized
                | R::ServerBusy
                | R::ServerShuttingDown
                | R::BadAuthenticationMethod
                | R::KeepAliveTimeout
                | R::SessionTakenOver
                | R::TopicFilterInvalid
                | R::RetainNotSupported
                | R::QoSNotSupported
                | R::UseAnotherServer
                | R::ServerMoved
                | R::SharedSubscriptionsNotSupported
                | R::ConnectionRateExceeded
                | R::MaximumConnectTime
                | R::SubscriptionIdentifiersNotSupported
                | R::WildcardSubscriptionsNotSupported
        )
}

pub(super) const fn is_client_auth_reason(code: ReasonCode) -> bool {
    matches!(
        code,
        ReasonCode::ContinueAuthentication | ReasonCode::ReAuthenticate
    )
}

pub(super) const fn is_server_auth_reason(code: ReasonCode) -> bool {
    matches!(
        code,
        ReasonCode::Success | ReasonCode::ContinueAuthentication
    )
}
